"""Runs one check with one module of the analysis changed, in a process of its own.

    python mutant_run.py MODULE CHECK < JSON [old, new]     or     python mutant_run.py - CHECK

Prints "killed" and why, "survived", or "invalid" where the change does not even run.
"""

from __future__ import annotations

import importlib
import json
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
#: What a slip of the pen in the list of mutants would raise, rather than a wrong rule.
SLIPS = (NameError, SyntaxError, ImportError, AttributeError)


def changed(source: str, old: str, new: str) -> str:
    """`source` with its one occurrence of `old` replaced; ValueError if it has none or several."""
    if source.count(old) != 1:
        raise ValueError(f"occurs {source.count(old)} times: {old}")
    return source.replace(old, new)


class Changed(SourceFileLoader):
    """Loads a module from its changed source, past any cached bytecode."""

    old, new = "", ""

    def get_code(self, fullname):
        source = changed(Path(self.path).read_text(), self.old, self.new)
        return compile(source, self.path, "exec")


class Finder(PathFinder):
    target = ""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        spec = PathFinder.find_spec(fullname, path, target)
        if fullname == cls.target and spec is not None:
            spec.loader = Changed(fullname, str(spec.origin))
        return spec


def run(check: str) -> str:
    from mutants import CHECKS

    file, seeds = CHECKS[check]
    seed = 0
    try:
        function = getattr(importlib.import_module(file), f"check_{check}")
        for seed in range(seeds):
            function(Random(seed))
    except SLIPS as error:
        return f"invalid: {error!r}"
    except Exception as error:
        return f"killed by seed {seed}: {error!r}"[:300]
    return "survived"


def main() -> None:
    module, check = sys.argv[1:]
    sys.path[:0] = [str(HERE.parent.parent), str(HERE)]
    if module != "-":
        Changed.old, Changed.new = json.load(sys.stdin)
        Finder.target = f"fagen.analysis.{module}"
        sys.meta_path.insert(0, Finder)
        importlib.import_module(Finder.target)
    print(run(check))


if __name__ == "__main__":
    main()
