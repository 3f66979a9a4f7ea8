"""From exceptions to messages and exit codes: a user's mistake never shows a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from fagen.cli import INTERNAL_ERROR, INTERRUPTED, USER_ERROR
from fagen.codegen.write import CannotWrite
from fagen.device.pool import NoWorker
from fagen.spec.errors import Diagnostic, SpecErrors


class UserError(Exception):
    """Something the caller can put right; `hint` says how."""

    def __init__(self, message: str, hint: str) -> None:
        self.message, self.hint = message, hint
        super().__init__(message)


class CannotPrint(Exception):
    """What a command found could not be written to stdout; the message says why."""


def output(text: str) -> None:
    """Text and a newline to stdout. Raises CannotPrint, and BrokenPipeError when nobody reads."""
    try:
        typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrint((error.strerror or str(error)).lower()) from None


@contextmanager
def reported() -> Iterator[None]:
    """Turns whatever a command raises into a message on stderr and an exit code."""
    try:
        yield
    except typer.Exit:
        raise
    except SpecErrors as errors:
        _leave(str(errors), USER_ERROR)
    except UserError as error:
        _leave(_text(error.message, error.hint), USER_ERROR)
    except CannotWrite as error:
        _leave(_text(str(error), error.hint), USER_ERROR)
    except KeyboardInterrupt:
        _leave("interrupted; nothing was left half-written", INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (`| head`).
        _drop_stdout()
        raise typer.Exit(128 + 13) from None
    except CannotPrint as error:
        _drop_stdout()
        _leave(_text(f"cannot write to stdout: {error}", "is its disk full?"), USER_ERROR)
    except NoWorker as error:
        hint = "is the installation of triton complete? `python -c 'import triton'` tells"
        _leave(_text(str(error), hint), INTERNAL_ERROR)
    except Exception as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}"
        hint = "this is a fault of fagen; please report the lines above and the variant file"
        _leave(_text(message, hint), INTERNAL_ERROR)


def _drop_stdout() -> None:
    """Python must not try to flush once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(message: str, hint: str) -> str:
    return str(Diagnostic(message, hint=hint))


def _leave(text: str, code: int) -> None:
    typer.echo(text, err=True)
    raise typer.Exit(code) from None
