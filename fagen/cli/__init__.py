"""The command line: arguments in, exit code out."""

from __future__ import annotations

import os
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
    except OSError as error:
        # Commands report their own: this is help that could not be printed.
        print(f"error: cannot write to stdout: {str(error.strerror).lower()}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(USER_ERROR)
    sys.exit(OK)
