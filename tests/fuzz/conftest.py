"""Lets these tests import what they share, and gives them one process that runs trials."""

import os
import sys
from pathlib import Path

import pytest

from fagen.verify.fuzz.crew import Worker

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="package")
def worker():
    with Worker("cpu") as shared:
        yield shared


@pytest.fixture(scope="package")
def runnable_folder():
    """Modules of this folder can be run with `-m` in processes that are started."""
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield
