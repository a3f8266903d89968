"""Files that are written whole or not at all, and that show damage: the SHA-256 of each is in itself."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import mmap
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from headspec.errors import DamageError, DataError, StorageError

MARK = b"headspec:sha256:"
#: what a writer puts once into a file, where its format has room for text, before it calls `seal`
OPEN = MARK.decode() + 64 * "0"
SEALED = len(OPEN)
#: before the seal of a file whose bytes differ although it says the same, such as one with times: what tells
#: it from others
ORIGIN = b"headspec:origin:"
#: called before a file gets its name; an error keeps it from that
before_publishing: list[Callable[[], None]] = []
AGAIN = "Delete it and start snakemake again, which makes it again"
#: number of an error of the system: what it means, and what to do before the next start
STORAGE = {
    errno.ENOSPC: ("the disk is full", "Free some space"),
    errno.EDQUOT: ("the quota of the disk is used up", "Free some space"),
    errno.EFBIG: ("files may not be that large here", "Raise the limit (ulimit -f)"),
    errno.EROFS: ("the disk is read-only", "Make it writable"),
    errno.EACCES: ("access is not permitted", "Change the permissions of its folder"),
    errno.EPERM: ("access is not permitted", "Change the permissions of its folder"),
    errno.EIO: ("the disk reports an error", "Check the disk"),
}


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path that is renamed to `path` when the block ends without error.

    Readers of `path` therefore see the whole file or none, even after an interruption.

    Raises
    ------
    StorageError
        The disk is full or read-only, or refuses the file for another reason.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            process = leftover.suffixes[-2][1:]
            # its writer was killed; one with the number of this process could be a link to another file
            if leftover == temporary or (process.isdecimal() and not _alive(int(process))):
                leftover.unlink(missing_ok=True)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        for check in before_publishing:
            check()
        os.replace(temporary, path)
    except Exception as error:
        if problem := storage_error(error, path):
            raise problem from error
        raise
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk, it cannot be there
            temporary.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def storage_error(error: BaseException | None, path: str | Path | None = None) -> StorageError | None:
    """The StorageError for `error`, or for the one that led to it; None if it is about something else.

    Parameters
    ----------
    path : the file that was being written; by default the one that the error names
    """
    while error and not (isinstance(error, OSError) and error.errno in STORAGE):
        error = error.__cause__ or error.__context__  # torch.save hides the error of the file
    if not isinstance(error, OSError) or error.errno is None:
        return None
    what, remedy = STORAGE[error.errno]
    return StorageError(
        f"{path or error.filename or 'a file'}: {what} ({os.strerror(error.errno)}). "
        f"{remedy} and start snakemake again: it continues with what is complete"
    )


def link(path: str | Path, name: Path) -> None:
    """Give a file a second, new name, or where the file system does not allow that, a copy.

    Neither name may be written to in place; `atomic` replaces a name and leaves the other as it is.
    """
    try:
        os.link(path, name)
    except OSError:
        with open(path, "rb") as file, open(name, "xb") as copy:
            shutil.copyfileobj(file, copy)


def loops(folder: str | Path) -> list[Path]:
    """The links in a folder, or the folder itself, that lead to themselves."""
    inside = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return [path for path in (Path(folder), *inside) if path.is_symlink() and _leads_to_itself(path)]


def _leads_to_itself(link: Path) -> bool:
    try:
        link.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def digest(path: str | Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(path: str | Path) -> None:
    """Write the digest of a file into its last `OPEN`.

    The digest is of all bytes of the file, with zeros in place of the digest itself. Whichever bit changes
    later, the file and its digest differ.
    """
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        at = data.rfind(MARK)
        data[at + len(MARK) : at + SEALED] = _digest(data, at).encode()


def sealed(path: str | Path) -> str | None:
    """The digest in the seal of a file, or what stands in `ORIGIN` before it; None if it has no seal.

    It says what was written. Whether that is still in the file, `check` says.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            at = data.rfind(MARK)
            origin = at - 64 - len(ORIGIN)
            if origin >= 0 and data[origin : at - 64] == ORIGIN:
                return data[at - 64 : at].decode()
            return data[at + len(MARK) : at + SEALED].decode() if at >= 0 else None
    except ValueError:  # an empty file cannot be mapped
        return None


def check(path: str | Path, again: str = AGAIN) -> None:
    """DamageError if a file is not as `seal` left it; DataError if it cannot be read.

    Parameters
    ----------
    again : what to do about it, for the error
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            at = data.rfind(MARK)
            intact = at >= 0 and data[at + len(MARK) : at + SEALED] == _digest(data, at).encode()
    except ValueError:  # an empty file cannot be mapped
        at, intact = -1, False
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if not intact:
        what = "its content is not what was written" if at >= 0 else "cut off or written by an older headspec"
        raise DamageError(f"{path}: damaged, {what}. {again}")


def _digest(data: mmap.mmap, at: int) -> str:
    """SHA-256 of `data` with zeros as the digest of the seal at `at`."""
    sha256 = hashlib.sha256()
    with memoryview(data) as view, view[:at] as before, view[at + SEALED :] as after:
        for part in (before, OPEN.encode(), after):
            sha256.update(part)
    return sha256.hexdigest()


def belong(path: str | Path, written: Collection[str], again: str = AGAIN) -> None:
    """DamageError if a file was written as another one, such as that of another run.

    Parameters
    ----------
    path : as jobs name it, relative to the working folder; of other paths nothing is known
    written : paths of the job that wrote the file; in the results of another study, they count as `moved`
    """
    tops = {Path(each).parts[:1] for each in written}
    if Path(path).parts[:1] in tops and not any(str(path) in (each, moved(each, path)) for each in written):
        raise DamageError(f"{path}: a copy of {min(written)}, made for something else. {again}")


def moved(path: str | Path, beside: str | Path) -> str:
    """A path in the results of one study, ``results/<study>/...``, in those of the study of `beside`."""
    parts, there = Path(path).parts, Path(beside).parts
    if len(there) > 2 and len(parts) > 2 and parts[0] == there[0] == "results":
        return str(Path(*there[:2], *parts[2:]))
    return str(path)
