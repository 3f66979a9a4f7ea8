"""Writes a generated module so that a reader meets the old file or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


class CannotWrite(Exception):
    """A file or folder that cannot be written; the message says which, why, and what would help."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        self.path, self.reason, self.hint = path, reason, hint
        super().__init__(f"cannot write `{path}`: {reason}")


def ready_folder(folder: Path) -> Path:
    """The folder, made if missing; raises CannotWrite where no file can be put into it.

    Asked before a build proves anything, so that minutes of work do not end in this error.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _refusal(folder, error) from None
    return folder


def write_atomically(path: Path, text: str) -> bool:
    """Makes `path` hold `text`; False where it already did. Raises CannotWrite.

    The text goes to a file beside it, to the disk, and then takes the name in one step. A link is
    followed, and permissions of a file that is replaced stay.
    """
    target = path.resolve()
    new = text.encode()
    try:
        if target.is_file() and target.read_bytes() == new:
            return False
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        descriptor, temporary = tempfile.mkstemp(".tmp", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(new)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            # Ctrl-C included: nothing half-written stays behind.
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise _refusal(path, error) from None
    return True


def _umask() -> int:
    # The process-wide mask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refusal(path: Path, error: OSError) -> CannotWrite:
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        reason, hint = "a file stands in its way", "name another folder with `-o DIR`"
    elif isinstance(error, IsADirectoryError):
        reason, hint = "it is a folder", "remove it, or name another folder with `-o DIR`"
    elif isinstance(error, PermissionError):
        hint = "change its permissions, or name another folder with `-o DIR`"
    else:
        hint = "name another folder with `-o DIR`"
    return CannotWrite(path, reason, hint)
