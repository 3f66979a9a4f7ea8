"""Messages between a pool and its workers: a length, then as many bytes."""

from __future__ import annotations

import struct
from typing import IO

_LENGTH = struct.Struct("<Q")
#: A worker's first message: everything a job needs has been imported.
READY = b"ready"


def send(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message, or None where the other side has ended, even in the middle of one."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    message = stream.read(length)
    return message if len(message) == length else None
