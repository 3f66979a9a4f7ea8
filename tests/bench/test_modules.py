"""Configuration files, and the agreement of a case with a module's arguments."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fagen.bench.cases import case_of
from fagen.bench.modules import (
    call,
    check_arguments,
    configs_for,
    import_module,
    parse_configs,
)
from fagen.bench.problem import Problem

WIDE = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
NARROW = {**WIDE, "BLOCK_M": 64}
PLAIN_CAUSAL = Path(__file__).parent / "plain_causal.py"
PROBLEM = Problem(1, 2, 1, 16, 8)


def test_roles_alone_serve_every_variant():
    assert parse_configs({"forward": WIDE}) == {"*": {"forward": WIDE}}
    assert parse_configs({}) == {}


def test_the_most_specific_configuration_wins_for_each_role():
    table = parse_configs(
        {
            "causal/D128": {"dq": NARROW},
            "causal": {"forward": WIDE},
            "D128": {"forward": NARROW, "dkdv": WIDE},
            "*": {"dq": WIDE},
        }
    )
    assert configs_for(table, "causal", 128) == {"dq": NARROW, "dkdv": WIDE, "forward": WIDE}
    assert configs_for(table, "full", 128) == {"dq": WIDE, "dkdv": WIDE, "forward": NARROW}
    assert configs_for(table, "full", 64) == {"dq": WIDE}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "JSON object"),
        ({"causal": 3}, "`causal` must map"),
        ({"causal": {"sideways": WIDE}}, "unknown role `sideways`"),
        ({"causal": {"dq": {"BLOCK_M": 1}}}, "exactly BLOCK_M, BLOCK_N, num_warps, num_stages"),
        ({"dq": {**WIDE, "num_warps": 0}}, r"`dq`\.num_warps must be a whole number"),
        ({"dq": {**WIDE, "num_warps": True}}, "whole number"),
        ({"dq": {**WIDE, "num_warps": 4.0}}, "whole number"),
    ],
)
def test_a_faulty_configuration_is_refused_by_name(document, said):
    with pytest.raises(ValueError, match=said):
        parse_configs(document)


def test_a_module_is_executed_once():
    assert import_module(PLAIN_CAUSAL) is import_module(PLAIN_CAUSAL)


def test_a_module_that_fails_to_import_is_not_kept(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('first')")
    with pytest.raises(RuntimeError, match="first"):
        import_module(path)
    path.write_text("attention = 1")
    assert import_module(path).attention == 1


def test_a_missing_module_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.py"):
        import_module(tmp_path / "nothing.py")


def test_a_call_passes_configurations_as_the_module_spells_them():
    seen = {}
    module = SimpleNamespace(
        Config=lambda **numbers: ("config", numbers),
        attention=lambda q, k, v, **keywords: seen.update(keywords),
    )
    leaves, _ = PROBLEM.inputs("cpu", 0)
    case = case_of("sliding_window", PROBLEM, "cpu")
    call(module, case, leaves, {"dq": NARROW}, return_lse=True)()
    assert seen == {"window": 1024, "return_lse": True, "config": {"dq": ("config", NARROW)}}
    seen.clear()
    call(module, case, leaves)()
    assert seen == {"window": 1024}


def test_arguments_that_agree():
    check_arguments(import_module(PLAIN_CAUSAL), case_of("causal", PROBLEM, "cpu"))


def test_arguments_that_do_not_agree_are_named():
    case = case_of("sliding_window", PROBLEM, "cpu")
    with pytest.raises(TypeError, match=r"does not take \['window'\]"):
        check_arguments(import_module(PLAIN_CAUSAL), case)

    def attention(q, k, v, *, doc, slopes=None, scale=None):
        return torch.zeros(())

    with pytest.raises(TypeError, match=r"still needs \['doc'\]"):
        check_arguments(SimpleNamespace(attention=attention), case_of("full", PROBLEM, "cpu"))
