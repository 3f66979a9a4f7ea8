"""The process in which trials run: `python -m fagen.verify.fuzz.worker`.

Trials come as JSON lines on stdin, outcomes leave as JSON lines on the original stdout. It ends
when stdin does, or after a trial that left the GPU's context unusable.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

import torch

from fagen.verify.fuzz.crew import READY
from fagen.verify.fuzz.outcomes import Outcome, Trial
from fagen.verify.fuzz.trial import run_trial
from fagen.verify.interpreter import mend


def main() -> None:
    # NumPy warns of log2(0) and the like, which empty rows do, for each tile.
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if os.environ.get("TRITON_INTERPRET"):
        mend()
    with os.fdopen(os.dup(1), "w") as answers:
        # Whatever a module prints must not end up among the outcomes.
        os.dup2(2, 1)
        print(READY, file=answers, flush=True)
        for line in sys.stdin:
            outcome = run_trial(Trial.from_json(json.loads(line)))
            print(json.dumps(outcome.to_json()), file=answers, flush=True)
            if _is_lost(outcome):
                return


def _is_lost(outcome: Outcome) -> bool:
    """After an illegal access every later call in this process would fail too."""
    if outcome.verdict != "crashed" or not torch.cuda.is_available():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


if __name__ == "__main__":
    main()
