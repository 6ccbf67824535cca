"""Files that can run code when loaded: taciturn loads the files that it wrote for this user, and others only if they
are trusted.

Such a file ends with a signature, HMAC-SHA256 under a secret key in the user's own folder, created on first use.
Pickles and zip archives may have bytes after their end, so other programs can still read them.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from taciturn import files

VARIABLE = "TACITURN_TRUST"
"""If this environment variable is 1, every file is trusted; `--trust` sets it, so worker processes know too."""
MARK, SIZE = b"\ntaciturn made this:", 32
MOST_TRUSTED = 10**10
"""Most bytes in such a file; observations from training are stored, too."""


def key_file() -> Path:
    """Path of the key: `$XDG_CONFIG_HOME/taciturn/key`, or `~/.config/taciturn/key`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "taciturn" / "key"


def key(*, make: bool) -> bytes | None:
    """The user's key; None if it does not exist and `make` is false, or if it cannot be read or made."""
    file = key_file()
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        if make and not file.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = file.with_name(f".{secrets.token_hex(8)}")
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
                opened.write(secrets.token_bytes(SIZE))
            try:
                os.link(new, file)  # it never replaces a key that another process has just made
            except FileExistsError:
                pass
            finally:
                new.unlink()
        result = file.read_bytes()
        return result if len(result) == SIZE else None
    return None


def signed(content: bytes) -> bytes:
    """The content, followed by a signature that only this user can make; unsigned if no key can be stored."""
    own = key(make=True)
    return content if own is None else content + MARK + hmac.digest(own, content, hashlib.sha256)


def made_here(content: bytes) -> bool:
    """Whether the content ends with this user's signature of the rest."""
    own, end = key(make=False), len(content) - SIZE
    if own is None or content[end - len(MARK) : end] != MARK:
        return False
    return hmac.compare_digest(content[end:], hmac.digest(own, content[: end - len(MARK)], hashlib.sha256))


def trusted(trust: bool) -> bool:
    """Whether the caller or the environment trusts every file."""
    return trust or os.environ.get(VARIABLE) == "1"


class Untrusted(ValueError):  # noqa: N818 - named after the thing found
    """A file that is not trusted; `why` gives the reason why it must be."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            f"{file} {why}, and code in it would run as it is loaded: if you trust who made it, pass --trust (in "
            "Python, trust=True)"
        )


def trusted_bytes(file: Path, trust: bool) -> bytes:
    """The content of a file that is trusted or was made here. Raises ValueError for any other file, OSError if it
    cannot be read."""
    result = files.content(file, MOST_TRUSTED)
    if not trusted(trust) and not made_here(result):
        raise Untrusted(file, "was not made by taciturn for this user")
    return result
