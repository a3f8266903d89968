"""Text in files, compressed or not, in any encoding."""

import codecs
import re
from pathlib import Path

import pyarrow as pa

from headspec.errors import DataError

#: pyarrow's name for the compression of each suffix
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
#: suffixes of archives, and of unsupported compression
ARCHIVES = (".zip", ".tar", ".tgz", ".xz", ".7z", ".rar")
#: a byte order mark as a character; `cat` leaves those of later files at the start of a line
MARK = "\ufeff"
#: a carriage return inside a line, not followed by a line feed (or by more returns and one)
RETURN = re.compile(r"\r(?!\r*(?:\n|\Z))")
NULS = 0.2  # share of NUL bytes from which a text is taken as UTF-16 or UTF-32
START = 1 << 20  # uncompressed bytes read from the start of a file
#: command to get large files: pointer that Git LFS or git-annex leaves in their place
POINTERS = {
    "git lfs pull": re.compile(rb"version https://git-lfs"),
    "git annex get": re.compile(rb"\S*/annex/objects/"),
}


def uncompressed(path: Path) -> Path:
    """Return the path without the suffix of compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED else path


def ending(path: Path) -> str:
    """Return the suffix of the uncompressed file in lower case: ``.csv`` for ``train.CSV.gz``."""
    return uncompressed(path).suffix.lower()


def read_text(path: Path, key: str, encoding: str | None = None, errors: str = "strict") -> str:
    """Return the text of a file, keeping line endings; raise OSError if it cannot be read or decompressed.

    Raises DataError, naming `key`, for a pointer to a large file, text that seems to be UTF-16 or UTF-32
    although no encoding is given, and the first byte that is invalid in the encoding, by default UTF-8.
    """
    check_pointer(path, key)
    with _open(path) as file:
        data = file.read()
    if not encoding and data.count(0) > NULS * len(data):
        problem = f"{key}: {path.name} has a NUL in many places, unlike UTF-8"
        raise DataError(f"{problem}{_advice(key, codecs.BOM_UTF16_LE)}")
    try:
        return _decoded(data, encoding, errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"{key}: line {line} of {path.name} has the byte 0x{data[error.start]:02X}, which is no"
        raise DataError(f"{problem} {encoding or 'UTF-8'}{_advice(key, data)}") from None


def check_pointer(path: Path, key: str) -> None:
    """Raise DataError, naming `key`, if a file is the pointer to a large file that was not fetched."""
    with open(path, "rb") as file:
        start = file.read(256)
    for command, pointer in POINTERS.items():
        if pointer.match(start):
            called = "Git LFS" if "lfs" in command else "git-annex"
            raise DataError(f"{key}: {path.name} is a pointer of {called}; fetch the file by {command}")


def read_start(path: Path, encoding: str | None = None) -> str:
    """Return the first lines of a file, or all of them if it is small, ignoring invalid bytes."""
    with _open(path) as file:
        data = file.read(START)
    text = _decoded(data, encoding, "ignore")  # the last character may be cut
    return text[: text.rfind("\n") + 1] if len(data) == START else text


def lines(text: str, what: str) -> list[str]:
    r"""Return the lines of a text, split only at ``\n`` and ``\r\n``.

    Raises DataError, starting with `what`, if all lines seem to end in ``\r`` alone.
    """
    check_line_ends(text, what)
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def check_line_ends(text: str, what: str) -> None:
    r"""Raise DataError, starting with `what`, if a text has ``\r`` inside and no ``\n``."""
    if "\n" not in text and RETURN.search(text):
        raise DataError(rf"{what} has lines that end at \r alone; expected \n or \r\n")


def _open(path: Path) -> pa.NativeFile:
    """Open a file, decompressed according to its suffix; raise OSError if it cannot be read."""
    return pa.input_stream(str(path), compression=COMPRESSED.get(path.suffix.lower()))


def _decoded(data: bytes, encoding: str | None, errors: str) -> str:
    """Return data as text, without byte order marks at the start of lines."""
    codec = codecs.lookup(encoding or "utf-8").name.removesuffix("-sig")
    return data.decode(codec, errors).lstrip(MARK).replace(f"\n{MARK}", "\n")


def _advice(key: str, data: bytes) -> str:
    """Explain how to name the encoding of a file, if a config key can."""
    if not key.startswith("tasks."):
        return " text"
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name = "utf-16" if wide else "latin-1 or cp1252"
    return f"; name the encoding in {key.removesuffix('.source')}.encoding, such as {name}"
