"""The fuzzer's worker with a hand in the text: trials bring edits of the rendered module along."""

import json
import re
import sys
import warnings
from dataclasses import dataclass

from fagen.verify.fuzz.outcomes import Trial


@dataclass(frozen=True)
class Altered(Trial):
    """`edits` are (pattern, replacement); each must apply."""

    edits: tuple[tuple[str, str], ...] = ()

    def to_json(self):
        return {**super().to_json(), "edits": self.edits}


def altered(text, edits):
    for pattern, replacement in edits:
        text, count = re.subn(pattern, replacement, text)
        if count == 0:
            raise LookupError(f"nothing to plant at {pattern}")
    return text


def main():
    import torch

    from fagen.verify.fuzz.trial import run_trial
    from fagen.verify.interpreter import mend

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    mend()
    print("ready", flush=True)
    for line in sys.stdin:
        data = json.loads(line)
        edits = data["edits"]
        outcome = run_trial(Trial.from_json(data), lambda text, e=edits: altered(text, e))
        print(json.dumps(outcome.to_json()), flush=True)


if __name__ == "__main__":
    main()
