"""The derivative against SymPy where it is smooth, and against torch's autograd everywhere."""

import numpy as np
import pytest
import slopes
import sympy
import torch
from drawing import sources
from grammar import CAP, KV, Grammar, Q, table
from hypothesis import given, settings
from scene import draw_scene
from scores import score_names

from fagen.analysis.derivative import RULES, SELECTIONS, derivative
from fagen.analysis.evaluate import evaluate
from fagen.spec.expr import Expr, const, make, post_order
from fagen.spec.semantics import OPERATIONS
from fagen.spec.variant import SCORE
from fagen.verify.evaluate import evaluate as by_torch

X = sympy.Symbol("x", real=True)
SMOOTH = {
    "neg": lambda x: -x,
    "add": lambda x: x**2 + x,
    "sub": lambda x: x - x**3,
    "mul": lambda x: x * sympy.sin(x),
    "div": lambda x: sympy.cos(x) / (x + 3),
    "pow": lambda x: x**5,
    "exp": sympy.exp,
    "exp2": lambda x: 2**x,
    "log": sympy.log,
    "log2": lambda x: sympy.log(x, 2),
    "tanh": sympy.tanh,
    "sigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
    "sqrt": sympy.sqrt,
    "rsqrt": lambda x: 1 / sympy.sqrt(x),
    "sin": sympy.sin,
    "cos": sympy.cos,
}


def _of(op: str, x: Expr) -> Expr:
    square = make("mul", x, x)
    operands = {
        "add": (square, x),
        "sub": (x, make("mul", square, x)),
        "mul": (x, make("sin", x)),
        "div": (make("cos", x), make("add", x, const(3))),
        "pow": (x, const(5.0)),
    }
    return make(op, *operands.get(op, (x,)))


@pytest.mark.parametrize("outer", SMOOTH)
@pytest.mark.parametrize("inner", [None, "exp2", "sigmoid"])
def test_smooth_rules_are_those_of_calculus(outer, inner):
    argument = SCORE if inner is None else make(inner, SCORE)
    symbol = X if inner is None else SMOOTH[inner](X)
    expected = sympy.lambdify(X, sympy.diff(SMOOTH[outer](symbol), X), "math")
    slope = derivative(_of(outer, argument), SCORE)
    for at in (0.1, 0.7, 1.0, 2.3):
        found = evaluate(slope, {"score": np.float64(at)})
        assert found == pytest.approx(expected(at), rel=1e-12)


def test_every_float_operation_has_a_rule():
    floats = {op for op in OPERATIONS if op != "float" and _gives_float(op)}
    assert floats == RULES.keys() | SELECTIONS.keys()
    assert floats - SMOOTH.keys() == {"min", "max", "clamp", "abs", "where", "floor"}


def _gives_float(op: str) -> bool:
    kinds = ["float"] * OPERATIONS[op].arity
    if op == "where":
        kinds[0] = "bool"
    try:
        return OPERATIONS[op].result(kinds) == "float"
    except TypeError:
        return False
    except Exception as error:
        assert type(error).__name__ == "TypeMismatch"
        return False


@settings(max_examples=400)
@given(sources)
def test_autograd_agrees_at_every_point(rng):
    """Whole numbers among the scores and constants meet the ties of min, max, clamp and abs."""
    scene, score = draw_scene(rng), Grammar(rng).score(rng.randint(1, 4))
    names = score_names(rng, scene)
    names["score"] = np.where(rng.random() < 0.5, np.round(names["score"]), names["score"])
    _hold_autograd(score, names, scene.tensors)


@pytest.mark.parametrize("case", slopes.ties(), ids=lambda case: case[0])
def test_ties_are_those_of_autograd(case):
    _, node, at, expected = case
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    value = by_torch(node, {"score": x, "cap": 5.0}, {})
    (found,) = torch.autograd.grad(value, x, allow_unused=True)
    assert (0.0 if found is None else found.item()) == pytest.approx(expected, rel=1e-12)


def _hold_autograd(score: Expr, names: dict, tensors: dict) -> None:
    x = torch.tensor(names["score"], requires_grad=True)
    bound = {n: torch.as_tensor(v) for n, v in names.items()} | {"score": x}
    value = by_torch(score, bound, {n: torch.from_numpy(t) for n, t in tensors.items()})
    expected = np.zeros(x.shape)
    if value.requires_grad:
        (grad,) = torch.autograd.grad(value.broadcast_to(x.shape).sum(), x, allow_unused=True)
        expected = np.zeros(x.shape) if grad is None else grad.numpy()
    slope = derivative(score, SCORE)

    def agrees(nudge: float) -> np.ndarray:
        found = evaluate(slope, {**names, "score": names["score"] + nudge}, tensors)
        return np.isclose(found, expected, rtol=1e-6 if nudge else 1e-9, atol=1e-9, equal_nan=True)

    # Where the last digit of a tanh makes a tie for one library only, torch sees one of its sides.
    assert (agrees(0.0) | agrees(1e-9) | agrees(-1e-9)).all(), f"{score}"


@pytest.mark.parametrize(
    "score",
    [
        make("where", make("lt", KV, Q), make("sqrt", SCORE), SCORE),
        make("mul", make("where", make("gt", SCORE, const(0.0)), SCORE, CAP), table("pair", Q, KV)),
        make("where", make("le", KV, Q), make("mul", SCORE, table("pair", Q, KV)), CAP),
        make("sqrt", make("max", SCORE, const(0.0))),
        make("log", make("clamp", SCORE, const(0.0), const(1.0))),
    ],
    ids=str,
)
def test_what_is_discarded_stays_zero(score):
    """An infinite or undefined slope, or an infinite factor, behind a choice not taken."""
    from random import Random

    scene = draw_scene(Random(3))
    names = score_names(Random(3), scene)
    pair = np.where(np.indices(scene.tensors["pair"].shape).sum(0) % 3 == 0, np.inf, 1.0)
    pair = np.where(scene.grid(make("le", KV, Q)), 1.0, pair)
    _hold_autograd(score, names, {**scene.tensors, "pair": pair})


def test_a_shared_subexpression_is_differentiated_once():
    node = SCORE
    for _ in range(40):
        node = make("mul", make("tanh", node), make("tanh", node))
    slope = derivative(node, SCORE)
    assert len(list(post_order(slope))) < 1000
