"""The child of conftest.py: runs the tests whose ids it reads, and answers with JSON lines."""

from __future__ import annotations

import json
import os
import sys

import pytest

#: The last two plugins collect all garbage after a run, which takes longer than most tests here.
UNUSED = ("cacheprovider", "xdist", "unraisableexception", "threadexception")
OPTIONS = ("-q", "--tb=short", *(f"-pno:{name}" for name in UNUSED))


class Reports:
    """A pytest plugin that keeps the reports of one run."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        skipped = report.skipped and isinstance(report.longrepr, tuple)
        text = str(report.longrepr[2]) if skipped else report.longreprtext
        self.found.append({"when": report.when, "outcome": report.outcome, "text": text})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text = report.longreprtext
            self.found.append({"when": "collection", "outcome": "failed", "text": text})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    # What tests print must not end up between the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        reports = Reports()
        pytest.main([*OPTIONS, line.rstrip("\n")], plugins=[reports])
        answers.write(json.dumps(reports.found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
