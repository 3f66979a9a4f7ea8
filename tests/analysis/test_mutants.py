"""Every rule of the algebra matters: each small fault in one is noticed by a property check."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutant_run import changed
from mutants import CHECKS, FAULTS, mutants

RUNNER = Path(__file__).parent / "mutant_run.py"
ANALYSIS = Path(__file__).parent.parent.parent / "fagen" / "analysis"
MUTANTS = list(mutants())
NAMES = [f"{m.module}-{i}" for i, m in enumerate(MUTANTS)]


def outcome(module: str, check: str, change: list[str] | None = None) -> str:
    run = subprocess.run(
        [sys.executable, RUNNER, module, check],
        input=json.dumps(change),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_a_fault_is_noticed(mutant):
    found = outcome(mutant.module, mutant.check, [mutant.old, mutant.new])
    assert found.startswith("killed"), f"{mutant.old} -> {mutant.new}: {found}"


@pytest.mark.parametrize("check", CHECKS)
def test_without_a_fault_nothing_is(check):
    assert outcome("-", check) == "survived\n"


def test_a_text_that_is_gone_is_an_error():
    with pytest.raises(ValueError, match="occurs 0 times"):
        changed("a = 1", "b", "c")
    with pytest.raises(ValueError, match="occurs 2 times"):
        changed("a = a", "a", "c")
    with pytest.raises(AssertionError, match="occurs 0 times"):
        outcome("walk", "walk", ["no such text", ""])


def test_every_module_of_rules_is_tried():
    assert len(MUTANTS) >= 40
    assert len({(m.module, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)
    assert all((ANALYSIS / f"{module}.py").is_file() for module in FAULTS)
