"""Runs these tests in a process of its own, under Triton's interpreter.

TRITON_INTERPRET must be set before Triton is imported and would break every test that compiles, so
the tests of one pytest process share one child. Fixtures are set up on both sides: keep them cheap.
Tests marked `gpu` or `native` stay where they are. `TRITON_INTERPRET=1 pytest tests/module` runs
everything in place, for a debugger.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Seconds one test may take, the start of the process included.
TIMEOUT = 240.0

sys.path.insert(0, str(HERE))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "native: compiles kernels instead of interpreting them")


class Interpreter:
    """The child process; it is started by the first test and again if one has killed it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process: subprocess.Popen[str] | None = None

    def run(self, nodeid: str) -> list[dict[str, str]]:
        """The reports of one test, each with `when`, `outcome` and `text`."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "interpreter.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self.root,
                env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": self._path()},
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(nodeid + "\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as answers:
            answers.register(self.process.stdout, selectors.EVENT_READ)
            answered = answers.select(TIMEOUT)
        line = self.process.stdout.readline() if answered else ""
        if not line:
            self.stop()
            pytest.fail("the interpreting process died or did not answer", pytrace=False)
        return json.loads(line)

    def _path(self) -> str:
        return os.pathsep.join(filter(None, [str(self.root), os.environ.get("PYTHONPATH")]))

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def interpreter(pytestconfig: pytest.Config) -> Iterator[Interpreter]:
    child = Interpreter(pytestconfig.rootpath)
    yield child
    child.stop()


def stays_here(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(name) for name in ("gpu", "native"))
    return marked or os.environ.get("TRITON_INTERPRET") == "1"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if stays_here(pyfuncitem):
        return None
    child: Interpreter = pyfuncitem._request.getfixturevalue("interpreter")
    reports = child.run(pyfuncitem.nodeid)
    for report in reports:
        if report["outcome"] == "skipped":
            pytest.skip(report["text"])
        if report["outcome"] == "failed":
            pytest.fail(f"in {report['when']}, interpreted:\n{report['text']}", pytrace=False)
    if not any(report["when"] == "call" for report in reports):
        pytest.fail("the interpreting process did not find the test", pytrace=False)
    return True
