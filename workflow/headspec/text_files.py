"""Text in files, compressed or not, in any encoding."""

import codecs
import io
from pathlib import Path

import pyarrow as pa

from headspec.errors import DataError

#: pyarrow's name of the compression for each ending of a compressed file
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
#: endings of archives, and of unsupported compression
ARCHIVES = (".zip", ".tar", ".tgz", ".xz", ".7z", ".rar")


def uncompressed(path: Path) -> Path:
    """Return the path without the ending of compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED else path


def ending(path: Path) -> str:
    """Return the ending of the uncompressed file in lower case: ``.csv`` for ``train.CSV.gz``."""
    return uncompressed(path).suffix.lower()


def open_bytes(path: Path) -> pa.NativeFile:
    """Open a file, decompressed by its ending; raise OSError if it cannot be read."""
    return pa.input_stream(str(path), compression=COMPRESSED.get(path.suffix.lower()))


def open_text(path: Path, encoding: str | None = None) -> io.TextIOWrapper:
    """Open a file as text, with its line ends."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding or "utf-8-sig", newline="")


def read_text(path: Path, key: str, encoding: str | None = None, errors: str = "strict") -> str:
    """Return the text of a file, with its line ends; raise OSError if it cannot be read or decompressed.

    Raise DataError, which names `key`, at the first byte that does not fit the encoding, by default UTF-8.
    """
    with open_bytes(path) as file:
        data = file.read()
    try:
        return data.decode(encoding or "utf-8-sig", errors)
    except UnicodeDecodeError as error:
        start = error.start + (len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
        line = data.count(b"\n", 0, start) + 1
        problem = f"{key}: line {line} of {path.name} has the byte 0x{data[start]:02X}, which is no"
        raise DataError(f"{problem} {encoding or 'UTF-8'}{_advice(key, data)}") from None


def _advice(key: str, data: bytes) -> str:
    """Say how to name the encoding of a file, if a key of the config can."""
    if not key.startswith("tasks."):
        return " text"
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name = "utf-16" if wide else "latin-1 or cp1252"
    return f"; name the encoding in {key.removesuffix('.source')}.encoding, such as {name}"
