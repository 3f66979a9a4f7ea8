"""The other end of `verify_module`: a process of its own that runs cases and prints JSON lines.

    python -m fagen.verify.worker REQUEST

REQUEST is a pickled dictionary (variant, module, device, level, only, seed, start). The lines are
{"device", "cases"} once, then {"start": index} before and {"result": ...} after each case.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import torch

from fagen.verify.cases import cases_for
from fagen.verify.checks import run_case
from fagen.verify.interpreter import mend
from fagen.verify.report import CaseResult

#: As in `fagen.verify.verify`, which this process need not import.
RESTART = 3

_protocol: TextIO = sys.stdout


def main(request_path: str) -> int:
    """Runs the request's cases from `start` on; 0 when all were run, 3 to be restarted."""
    request = pickle.loads(Path(request_path).read_bytes())
    variant, device, seed = request["variant"], request["device"], request["seed"]
    cases = cases_for(variant, device, request["level"])
    if request["only"] is not None:
        cases = tuple(c for c in cases if c.name in request["only"])
    _say({"device": _describe(device), "cases": [c.name for c in cases]})
    # The tensors are tiny: threads would only wait for each other, for minutes on a busy machine.
    torch.set_num_threads(1)
    if device == "cpu":
        mend()
    module = _load(Path(request["module"]))
    for index in range(request["start"], len(cases)):
        _say({"start": index})
        case = cases[index]
        try:
            # Each case has its own seed, so that a restart or a skipped case changes no other.
            result = run_case(variant, module, case, device, seed + index)
            fatal = False
        except Exception as error:
            result = CaseResult(case.name, "crashed", message=_last_lines(error))
            fatal = device == "cuda" and _device_is_lost()
        _say({"result": result.to_json()})
        if fatal:
            # After an illegal access every later call in this process would fail too.
            os._exit(RESTART)
    return 0


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _device_is_lost() -> bool:
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _describe(device: str) -> str:
    if device == "cuda":
        return f"cuda ({torch.cuda.get_device_name()})"
    return "cpu (Triton's interpreter)"


def _last_lines(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    return f"{type(error).__name__}: {str(error).strip()[:600]} (at {place})"


def _say(line: dict[str, Any]) -> None:
    _protocol.write(json.dumps(line) + "\n")
    _protocol.flush()


if __name__ == "__main__":
    # What a module prints, even from C, must not end up between the lines of the protocol.
    _protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.exit(main(sys.argv[1]))
