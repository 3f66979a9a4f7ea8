"""Every row of the semantics table against Python's own arithmetic."""

import math

import pytest
import torch

from fagen.spec.expr import const, make, name, read
from fagen.spec.semantics import OPERATIONS
from fagen.verify.evaluate import evaluate

INTS = (-37, -16, -7, -1, 0, 1, 2, 5, 16, 31)
FLOATS = (-3.75, -1.0, -0.5, 0.0, 0.25, 1.0, 2.5)
BOOLS = (False, True)

PYTHON = {
    "neg": (lambda x: -x, "n"),
    "add": (lambda x, y: x + y, "nn"),
    "sub": (lambda x, y: x - y, "nn"),
    "mul": (lambda x, y: x * y, "nn"),
    "div": (lambda x, y: x / y, "nn"),
    "floordiv": (lambda x, y: x // y, "ii"),
    "mod": (lambda x, y: x % y, "ii"),
    "pow": (lambda x, y: math.pow(x, y), "ff"),
    "min": (min, "nn"),
    "max": (max, "nn"),
    "clamp": (lambda x, lo, hi: min(max(x, lo), hi), "nnn"),
    "abs": (abs, "n"),
    "lt": (lambda x, y: x < y, "nn"),
    "le": (lambda x, y: x <= y, "nn"),
    "gt": (lambda x, y: x > y, "nn"),
    "ge": (lambda x, y: x >= y, "nn"),
    "eq": (lambda x, y: x == y, "nn"),
    "ne": (lambda x, y: x != y, "nn"),
    "and": (lambda x, y: x and y, "bb"),
    "or": (lambda x, y: x or y, "bb"),
    "not": (lambda x: not x, "b"),
    "bitand": (lambda x, y: x & y, "ii"),
    "bitor": (lambda x, y: x | y, "ii"),
    "bitxor": (lambda x, y: x ^ y, "ii"),
    "invert": (lambda x: ~x, "i"),
    "shl": (lambda x, y: x << y, "is"),
    "shr": (lambda x, y: x >> y, "is"),
    "where": (lambda c, x, y: x if c else y, "bnn"),
    "int": (math.trunc, "n"),
    "float": (float, "n"),
    "floor": (lambda x: float(math.floor(x)), "f"),
    "exp": (math.exp, "f"),
    "exp2": (lambda x: 2.0**x, "f"),
    "log": (math.log, "f"),
    "log2": (math.log2, "f"),
    "tanh": (math.tanh, "f"),
    "sigmoid": (lambda x: 1 / (1 + math.exp(-x)), "f"),
    "sqrt": (math.sqrt, "f"),
    "rsqrt": (lambda x: 1 / math.sqrt(x), "f"),
    "sin": (math.sin, "f"),
    "cos": (math.cos, "f"),
}

VALUES = {"i": INTS, "f": FLOATS, "b": BOOLS, "s": (0, 1, 5, 20), "n": INTS + FLOATS}


def test_every_operation_has_a_row_here():
    assert set(PYTHON) == set(OPERATIONS)


def combinations(kinds):
    if not kinds:
        yield ()
        return
    for value in VALUES[kinds[0]]:
        for rest in combinations(kinds[1:]):
            yield (value, *rest)


@pytest.mark.parametrize("op", sorted(PYTHON))
def test_row(op):
    function, kinds = PYTHON[op]
    tried = 0
    for arguments in list(combinations(kinds))[:: 1 if len(kinds) < 3 else 5]:
        try:
            expected = function(*arguments)
        except (ZeroDivisionError, ValueError, OverflowError):
            continue
        found = evaluate(make(op, *map(const, arguments)), {}, {}).item()
        assert found == pytest.approx(expected, rel=1e-14, abs=1e-300), arguments
        assert isinstance(found, bool) == isinstance(expected, bool)
        tried += 1
    assert tried >= 2


@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor", "eq", "ne"])
def test_bools_take_bitwise_operations_and_equality(op):
    for x in BOOLS:
        for y in BOOLS:
            found = evaluate(make(op, const(x), const(y)), {}, {})
            assert found.dtype == torch.bool
            assert found.item() == PYTHON[op][0](x, y)


def test_complement_of_a_bool_is_its_negation():
    assert evaluate(make("invert", const(True)), {}, {}).item() is False


def test_int_of_a_bool():
    assert evaluate(make("int", const(True)), {}, {}).item() == 1


def test_shift_left_keeps_what_leaves_32_bits():
    """A product in disguise: where it may pass 32 bits it is taken in 64."""
    assert evaluate(make("shl", const(1), const(31)), {}, {}).item() == 2**31
    assert evaluate(make("shl", const(3), const(31)), {}, {}).item() == 3 * 2**31


@pytest.mark.parametrize("op", ["min", "max", "clamp", "add", "tanh", "abs", "floor"])
def test_nan_stays(op):
    arity = OPERATIONS[op].arity
    found = evaluate(make(op, const(math.nan), *[const(1.0)] * (arity - 1)), {}, {})
    assert math.isnan(found.item())


@pytest.mark.parametrize("op", ["min", "max"])
def test_nan_wins_from_either_side(op):
    assert math.isnan(evaluate(make(op, const(1.0), const(math.nan)), {}, {}).item())


def test_comparison_with_nan():
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        expected = op == "ne"
        assert evaluate(make(op, const(math.nan), const(1.0)), {}, {}).item() is expected


def test_types_are_the_widest():
    assert evaluate(make("add", const(1), const(2)), {}, {}).dtype == torch.int64
    assert evaluate(make("add", const(1), const(2.0)), {}, {}).dtype == torch.float64
    table = {"t": torch.ones(3, dtype=torch.float16)}
    assert evaluate(read("t", (const(0),), "float"), {}, table).dtype == torch.float64


def test_reads_outside_a_table_yield_zero():
    table = {"t": torch.tensor([5, 6, 7], dtype=torch.int32)}
    index = {"kv_idx": torch.arange(-2, 6)}
    found = evaluate(read("t", (name("kv_idx"),), "int"), index, table)
    assert found.tolist() == [0, 0, 5, 6, 7, 0, 0, 0]


def test_every_index_of_a_read_is_guarded():
    table = {"t": torch.arange(6.0).view(2, 3) + 1}
    index = {"h": torch.arange(-1, 3).view(-1, 1), "kv_idx": torch.arange(-1, 4)}
    found = evaluate(read("t", (name("h"), name("kv_idx")), "float"), index, table)
    assert found.tolist() == [[0] * 5, [0, 1, 2, 3, 0], [0, 4, 5, 6, 0], [0] * 5]


def test_reads_of_an_empty_table_yield_zero():
    found = evaluate(
        read("t", (name("kv_idx"),), "bool"), {"kv_idx": torch.arange(3)}, {"t": torch.ones(0) > 0}
    )
    assert found.tolist() == [False] * 3


def test_a_discarded_division_by_zero_does_not_raise():
    x = name("q_idx")
    safe = make("where", make("eq", x, const(0)), const(-1), make("floordiv", const(12), x))
    assert evaluate(safe, {"q_idx": torch.tensor([0, 5])}, {}).tolist() == [-1, 2]


def derivative(build, x):
    score = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    evaluate(build(name("score", "float")), {"score": score}, {}).sum().backward()
    return score.grad.tolist()


def test_a_discarded_branch_does_not_reach_the_derivative():
    def root(s):
        return make("where", make("gt", s, const(0.0)), make("sqrt", s), const(0.0))

    assert derivative(root, [-1.0, 0.0, 4.0]) == [0.0, 0.0, 0.25]


def test_derivatives_at_ties_are_torch_s():
    assert derivative(lambda s: make("max", s, const(1.0)), [0.0, 1.0, 2.0]) == [0.0, 0.5, 1.0]
    assert derivative(lambda s: make("abs", s), [-2.0, 0.0, 3.0]) == [-1.0, 0.0, 1.0]
    clamped = derivative(lambda s: make("clamp", s, const(-1.0), const(1.0)), [-1.0, 0.0, 1.5])
    assert clamped == [1.0, 1.0, 0.0]
    assert derivative(lambda s: make("floor", s), [0.5]) == [0.0]


def test_the_hook_sees_float_values_only():
    seen = []
    root = make("add", make("mul", name("q_idx"), const(2)), name("score", "float"))

    def hook(node, value):
        seen.append(node.op)
        return value

    evaluate(root, {"q_idx": 3, "score": 1.5}, {}, hook=hook)
    assert seen == ["float", "name", "add"]
