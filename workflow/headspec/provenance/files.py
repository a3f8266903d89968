"""Atomic files that contain their own SHA-256."""

import contextlib
import errno
import glob
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from headspec.errors import DamageError, DataError, StorageError

PREFIX = b"headspec:sha256:"
#: text that writers put into a file, wherever the format allows, for `embed_sha256` to replace
PLACEHOLDER = PREFIX.decode() + 64 * "0"
LENGTH = len(PLACEHOLDER)
#: number of bytes at the end of a file that contain `PLACEHOLDER`
TAIL = 1 << 20
#: checks of `publishing_if`
_checks: list[Callable[[], None]] = []
NOT_A_FILE = "not a file, but a folder, pipe, socket or device"
REMAKE = "Delete it and start snakemake again, which makes it again"
#: errno of a failed write: meaning, and what to do before the next start
STORAGE = {
    errno.ENOSPC: ("the disk is full", "Free some space"),
    errno.EDQUOT: ("the quota of the disk is used up", "Free some space"),
    errno.EFBIG: ("files may not be that large here", "Raise the limit (ulimit -f)"),
    errno.EROFS: ("the disk is read-only", "Make it writable"),
    errno.EACCES: ("access is not permitted", "Change the permissions of its folder"),
    errno.EPERM: ("access is not permitted", "Change the permissions of its folder"),
    errno.EISDIR: ("a folder has its name", "Move it elsewhere"),
    errno.EIO: ("the disk reports an error", "Check the disk"),
}


@contextlib.contextmanager
def publishing_if(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before `atomic` renames a file inside the block; an error prevents the renaming.

    The guard of a job uses it, so that writers of files need not know about jobs.
    """
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path, renamed to `path` if the block succeeds; raise StorageError if a disk fails."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            process = leftover.suffixes[-2][1:]
            # left by a killed writer; one with this process's number could be a link to another file
            if leftover == temporary or (process.isdecimal() and not _alive(int(process))):
                leftover.unlink(missing_ok=True)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        for check in _checks:
            check()
        os.replace(temporary, path)
    except Exception as error:
        if problem := storage_error(error, path):
            raise problem from error
        raise
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk, it cannot exist
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
    """Return a StorageError for a disk error, or one caused by it, in writing `path`; else None."""
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
    """Make a hard link to a file, or a copy if the file system has no hard links."""
    try:
        os.link(path, name)
    except OSError:
        with open(path, "rb") as file, open(name, "xb") as copy:
            shutil.copyfileobj(file, copy)


def loops(folder: str | Path) -> list[Path]:
    """Return circular symbolic links in a folder, including the folder itself."""
    inside = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return [path for path in (Path(folder), *inside) if path.is_symlink() and _leads_to_itself(path)]


def _leads_to_itself(link: Path) -> bool:
    try:
        link.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    return digests(path)[0]


def embed_sha256(path: str | Path) -> None:
    """Replace the last `PLACEHOLDER` in a file by the SHA-256 of the file with the placeholder."""
    _, at, _, right = _digests(path)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(right)


def digests(path: str | Path) -> tuple[str, bool]:
    """Return the SHA-256 of a file, and whether the file is unchanged since `embed_sha256`."""
    whole, _, recorded, right = _digests(path)
    return whole, recorded == right


def verify(path: str | Path, remedy: str = REMAKE) -> None:
    """Raise DamageError if a file changed since `embed_sha256`, DataError if it cannot be read.

    The message ends with the `remedy`.
    """
    try:
        _, at, recorded, right = _digests(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if recorded != right:
        what = "its content is not what was written" if at >= 0 else "cut off or written by an older headspec"
        raise DamageError(f"{path}: damaged, {what}. {remedy}")


def _digests(path: str | Path) -> tuple[str, int, bytes, bytes]:
    """Return a file's SHA-256, the offset of the embedded one (-1: none), its bytes, and the right bytes.

    A file that another program truncates meanwhile is read as it is; mapped memory would end the process.
    Raises OSError for anything but a file, since opening a pipe would block forever.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, NOT_A_FILE, str(path))
    with open(path, "rb") as file:
        start = file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        tail = file.read()
        within = tail.rfind(PREFIX)
        at, left = (start + within, start + within) if within >= 0 else (-1, start + len(tail))
        file.seek(0)
        digest = hashlib.sha256()
        while part := file.read(min(left, TAIL)):
            digest.update(part)
            left -= len(part)
        rest, written = file.read(), digest.copy()
    digest.update(rest)
    for part in (PLACEHOLDER.encode(), rest[LENGTH:]):
        written.update(part)
    return digest.hexdigest(), at, rest[:LENGTH], PREFIX + written.hexdigest().encode()


def verify_place(path: str | Path, written: Collection[str], remedy: str = REMAKE) -> None:
    """Raise DamageError if a file was written under another path, such as the same table of another run.

    `written` are the outputs of the job that wrote it. Only paths relative to the working folder are
    compared; results of another study count as a renamed study.
    """
    tops = {Path(name).parts[:1] for name in written}
    if Path(path).parts[:1] in tops and _within_study(path) not in map(_within_study, written):
        raise DamageError(f"{path}: a copy of {min(written)}, made for something else. {remedy}")


def _within_study(path: str | Path) -> tuple[str, ...]:
    """Return the parts of a path, without ``results/<study>``."""
    parts = Path(path).parts
    return parts[2:] if parts[0] == "results" and len(parts) > 2 else parts
