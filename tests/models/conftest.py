"""Runs these tests as those of tests/module: in a child process under Triton's interpreter."""

import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
MODULE_TESTS = HERE.parent / "module"
sys.path[:0] = [str(HERE), str(MODULE_TESTS)]
#: No configuration is looked up anywhere but in the file of the tiny models.
os.environ["HF_HUB_OFFLINE"] = "1"

_spec = importlib.util.spec_from_file_location("interpreted", MODULE_TESTS / "conftest.py")
_interpreted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_interpreted)

interpreter = _interpreted.interpreter
pytest_pyfunc_call = _interpreted.pytest_pyfunc_call
