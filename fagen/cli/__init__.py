"""The command line: arguments in, exit code out."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

#: Exit codes, also listed by `fagen --help`.
OK, FAILED, USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130


def main() -> NoReturn:
    """The console script `fagen`."""
    # A polite kill unwinds like Ctrl-C: processes that verify or compile are taken along.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        from fagen.cli.app import app

        app(prog_name="fagen")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    sys.exit(OK)
