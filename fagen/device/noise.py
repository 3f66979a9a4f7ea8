"""Catches what a compiler prints from C++, beneath Python's `sys.stdout` and `sys.stderr`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def captured(log: Path | None = None) -> Iterator[Path]:
    """Sends file descriptors 1 and 2 of the process to `log` (default: a temporary file).

    Yields the file, which a temporary one outlives by nothing: read it inside the block. It is
    emptied first. Descriptors belong to the process, so other threads are caught too.
    """
    with tempfile.TemporaryDirectory(prefix="fagen-") as scratch:
        path = log or Path(scratch, "output")
        sys.stdout.flush()
        sys.stderr.flush()
        saved = os.dup(1), os.dup(2)
        try:
            with path.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            yield path
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, original in zip((1, 2), saved, strict=True):
                os.dup2(original, descriptor)
                os.close(original)
