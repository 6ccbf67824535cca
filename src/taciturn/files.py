"""Files in folders that others may have filled: a folder of results is data, and nothing in it makes the program write,
delete, wait or read elsewhere."""

import contextlib
import os
import platform
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from taciturn.validation import shown

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
# Flags that Windows lacks are 0 there.
NO_LINKS, NO_WAITING, AS_BYTES = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def at_home(path: str | Path) -> Path:
    """A path with ~ replaced by the user's home, if that is known."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path's own raises an error where it is not known


def regular(file: Path, *, links: bool = True) -> BinaryIO:
    """A regular file, opened for reading. Other kinds are refused: reading a pipe would wait, and a device has no end.

    Raises:
        ValueError: it is no regular file, or it is a link and `links` is false.
        OSError: it cannot be opened.
    """
    if not links and file.is_symlink():
        raise ValueError(f"{file} must be a regular file, and it is a link")
    opened = os.fdopen(os.open(file, os.O_RDONLY | AS_BYTES | NO_WAITING | (0 if links else NO_LINKS)), "rb")
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise ValueError(f"{file} must be a regular file")
    return opened


def content(file: Path, most: int, *, links: bool = True) -> bytes:
    """The content of a file. Raises the errors of `regular`, and ValueError if it has more than `most` bytes."""
    with regular(file, links=links) as opened:
        # The size from `fstat` may be wrong: files of /proc have a size of 0.
        result = opened.read(most + 1) if os.fstat(opened.fileno()).st_size <= most else None
    if result is None or len(result) > most:
        raise ValueError(f"{file} must have at most {most:,} bytes")
    return result


def write(file: Path, data: bytes) -> None:
    """Write a file atomically: under a fresh name, which no link can have and no other process uses, flushed to disk,
    then renamed. Raises OSError."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}.tmp")
    made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_BYTES, 0o666)
    try:
        with os.fdopen(made, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove(folder: Path, names: str, kept: frozenset[str] = frozenset()) -> None:
    """Delete the files of a folder with names that match a pattern; of a link, only the link."""
    for file in folder.iterdir() if folder.is_dir() else ():
        if re.fullmatch(names, file.name) and file.name not in kept and (file.is_symlink() or file.is_file()):
            file.unlink()


def is_empty(folder: Path, name: str) -> bool:
    """Whether a folder is missing, or holds only a lock and leftovers of the file `name`, which a killed process had
    begun to write."""
    own = rf"{re.escape(LOCK)}|{leftovers(re.escape(name))}"
    return not folder.exists() or all(re.fullmatch(own, file.name) for file in folder.iterdir())


def leftovers(names: str) -> str:
    """The pattern of the temporary names of files, given the pattern `names` of their final names."""
    return rf"\.({names})(\.[0-9a-f]{{16}})?\.tmp"


def real(folder: Path) -> Path:
    """The path of a real folder; ValueError if its name belongs to something else, such as a link to a folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ValueError(f"{folder} must be a folder, and it is {'a link' * folder.is_symlink() or 'a file'}")
    return folder


def own(folder: Path) -> Path:
    """A real folder, made if it is missing. Raises the errors of `real`, or OSError if it cannot be made."""
    real(folder).mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def waiting(file: Path) -> Iterator[None]:
    """Wait until no other process or thread is in this context with the same file. Systems without locks, and folders
    that cannot be written to, do not wait."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            stream = held.enter_context(file.open("ab"))
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep other processes from writing to it. The system releases the lock of a process that has
    ended; nothing is locked on systems without locks.

    Raises:
        ValueError: another process holds the lock, or its file `.lock` is not a regular file, or has several hard
            links.
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, refusal = folder / LOCK, f"{folder / LOCK} must be a regular file of its own: delete it"
    if file.is_symlink():
        raise ValueError(refusal)
    flags = os.O_RDWR | os.O_CREAT | NO_LINKS | NO_WAITING
    with os.fdopen(os.open(file, flags, 0o666), "r+b", buffering=0) as stream:
        result = os.fstat(stream.fileno())
        if not stat.S_ISREG(result.st_mode) or result.st_nlink > 1:
            raise ValueError(refusal)
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = shown(stream.read(200).decode(errors="replace"))[1:-1]
            raise ValueError(f"{folder} is being written to by {who}: wait for it, or choose another --out") from error
        except OSError:
            pass  # some network file systems have no locks
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {platform.node()}".encode())
        yield
