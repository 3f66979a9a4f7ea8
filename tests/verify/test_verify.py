"""The isolated run: what a module does to its process costs a case, never the caller."""

import json
from pathlib import Path

import pytest
from standin_variant import STANDIN, VARIANT

from fagen.verify.report import CaseResult
from fagen.verify.verify import verify_module

BODY = "def tile_scores("
HEAD = "    if q_offset is None:\n"


@pytest.fixture
def module(tmp_path):
    """`module(before, after)`: the stand-in with one piece of text replaced, as a file."""

    def write(before: str = "", after: str = "") -> Path:
        text = STANDIN.read_text()
        assert before in text
        path = tmp_path / "broken_standin.py"
        path.write_text(text.replace(before, after, 1))
        return path

    return write


def verify(path, *only, **given):
    return verify_module(VARIANT, path, device="cpu", only=only, **given)


def test_a_correct_module_is_ok_and_reported_in_order(module):
    seen = []
    report = verify(module(), "plain", "no keys", "merge", on_case=seen.append)
    assert report.ok and not report.failures
    assert [c.name for c in report.cases] == ["plain", "no keys", "merge"]
    assert tuple(seen) == report.cases
    assert report.device == "cpu (Triton's interpreter)"
    measured = {(m.quantity, m.norm) for m in report.cases[0].measures}
    assert len(measured) == 10 and all(0 <= m.ratio <= 1 for m in report.cases[0].measures)
    restored = json.loads(json.dumps(report.to_json()))
    assert CaseResult.from_json(restored["cases"][0]) == report.cases[0]


def test_the_interpreter_is_on_before_the_import_and_a_seed_repeats(module):
    path = module(
        "import math\n", "import math\nimport os\n\nassert os.environ['TRITON_INTERPRET']\n"
    )
    one, two = (verify(path, "plain", "merge", seed=7) for _ in range(2))
    assert one.ok and one.seed == 7
    assert [c.measures for c in one.cases] == [c.measures for c in two.cases]


def test_a_wrong_module_says_where(module):
    report = verify(module("(distance < window)", "(distance <= window)"), "plain", "no keys")
    assert not report.ok
    assert [c.outcome for c in report.cases] == ["wrong", "ok"]
    assert "out: frobenius error" in report.failures[0].message
    assert report.cases[0].worst > 1


def test_a_signal_costs_one_case(module):
    path = module(
        HEAD,
        "    if k.shape[2] == 0:\n        import os\n        os.kill(os.getpid(), 11)\n" + HEAD,
    )
    report = verify(path, "one query, one key", "no keys", "no queries")
    assert [c.outcome for c in report.cases] == ["ok", "crashed", "ok"]
    assert "signal 11" in report.cases[1].message


def test_an_exception_costs_one_case_and_is_named(module):
    path = module(HEAD, "    if k.shape[2] == 0:\n        raise KeyError('tile')\n" + HEAD)
    report = verify(path, "no keys", "no queries")
    assert [c.outcome for c in report.cases] == ["crashed", "ok"]
    assert "KeyError: 'tile' (at broken_standin.py:" in report.cases[0].message


def test_a_hang_costs_one_case(module):
    path = module(HEAD, "    while k.shape[2] == 0:\n        pass\n" + HEAD)
    report = verify(path, "no keys", "no queries", case_timeout=5.0)
    assert [c.outcome for c in report.cases] == ["timed_out", "ok"]
    assert "no answer in 5 seconds" in report.cases[0].message


def test_a_module_that_cannot_be_imported(module):
    report = verify(module(BODY, "import no_such_package\n\n\n" + BODY), "plain", "no keys")
    assert not report.ok
    assert [(c.name, c.outcome) for c in report.cases] == [("import", "crashed")]
    assert "no_such_package" in report.cases[0].message


def test_a_module_that_leaves_early_is_no_success(module):
    report = verify(module(BODY, "raise SystemExit(0)\n\n\n" + BODY), "plain")
    assert not report.ok
    assert report.cases[0].name == "import"


def test_what_a_module_prints_does_not_disturb(module):
    path = module(
        HEAD, "    print('{\"result\": 1}')\n    import os\n    os.write(1, b'noise\\n')\n" + HEAD
    )
    assert verify(path, "one query, one key").ok


def test_bad_arguments(module, tmp_path):
    with pytest.raises(FileNotFoundError):
        verify_module(VARIANT, tmp_path / "nothing.py", device="cpu")
    with pytest.raises(ValueError, match="is called plane"):
        verify(module(), "plane")
