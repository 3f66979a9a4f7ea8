"""What must hold of the derivative: the slope of the secant, and torch's choices at ties.

As in `properties`, each `check_*` draws one example and raises where the property fails.
"""

from __future__ import annotations

from random import Random

import numpy as np
from grammar import CAP, Grammar
from scene import draw_scene
from scores import real, score_names

from fagen.analysis.derivative import derivative
from fagen.analysis.evaluate import evaluate
from fagen.spec.expr import Expr, const, make, post_order
from fagen.spec.variant import SCORE


def check_derivative(rng: Random) -> None:
    """Away from kinks the derivative is the slope of the secant."""
    scene, score = draw_scene(rng), Grammar(rng).score(rng.randint(1, 4))
    slope = derivative(score, SCORE)
    names = score_names(rng, scene)
    values, step = names["score"], 1e-5
    names["score"] = values + 0.137  # off the kinks at whole numbers
    found = real(slope, names, scene)
    sides = []
    for shift in (-2 * step, -step, step, 2 * step):
        moved = {**names, "score": names["score"] + shift}
        sides.append(real(score, moved, scene))
    far, near_ = (sides[3] - sides[0]) / (4 * step), (sides[2] - sides[1]) / (2 * step)
    one_sided = np.abs((sides[3] - sides[2]) - (sides[1] - sides[0])) / step
    size = 1.0 + np.abs(near_) + np.abs(sides[1])
    # Both secants agree and neither side bends: no kink between them.
    smooth = (np.abs(far - near_) < 1e-6 * size) & (one_sided < 1e-3 * size)
    wrong = smooth & np.isfinite(near_) & ~(np.abs(found - near_) <= 1e-3 * size)
    assert not wrong.any(), f"d/dscore of {score}: {slope}"
    expected = SCORE in set(post_order(score))
    assert expected or slope is const(0.0)


#: (expression of the score s, s, derivative there as torch has it)
def ties() -> list[tuple[str, Expr, float, float]]:
    s, zero, one = SCORE, const(0.0), const(1.0)
    root = make("sqrt", make("max", s, zero))
    positive = make("gt", s, zero)
    return [
        ("max", make("max", s, zero), 0.0, 0.5),
        ("max below", make("max", s, zero), -1.0, 0.0),
        ("max above", make("max", zero, s), 2.0, 1.0),
        ("min", make("min", one, s), 1.0, 0.5),
        ("min above", make("min", s, one), 3.0, 0.0),
        ("min below", make("min", one, s), 0.5, 1.0),
        ("abs", make("abs", s), 0.0, 0.0),
        ("abs below", make("abs", s), -2.0, -1.0),
        ("abs above", make("abs", s), 2.0, 1.0),
        ("clamp low", make("clamp", s, zero, one), 0.0, 1.0),
        ("clamp high", make("clamp", s, zero, one), 1.0, 1.0),
        ("clamp out", make("clamp", s, zero, one), 1.5, 0.0),
        ("clamp under", make("clamp", s, zero, one), -0.5, 0.0),
        ("clamp low end", make("clamp", zero, s, make("add", s, one)), 1.0, 1.0),
        ("clamp high end", make("clamp", const(3.0), zero, s), 1.0, 1.0),
        ("clamp low tie", make("clamp", one, s, const(2.0)), 1.0, 0.0),
        ("clamp high tie", make("clamp", one, zero, s), 1.0, 0.0),
        ("clamp crossed", make("clamp", zero, one, make("neg", s)), 1.0, -1.0),
        ("clamp crossed under", make("clamp", const(-5.0), one, make("neg", s)), 1.0, -1.0),
        ("clamp crossed low", make("clamp", zero, s, const(-1.0)), 1.0, 0.0),
        ("where", make("where", positive, make("mul", s, s), s), 3.0, 6.0),
        ("where not", make("where", positive, make("mul", s, s), s), -3.0, 1.0),
        ("floor", make("add", make("floor", s), s), 2.0, 1.0),
        ("twice", make("max", s, s), 2.0, 1.0),
        ("root below", root, -1.0, 0.0),
        ("root above", root, 4.0, 0.25),
        ("root chosen", make("where", positive, make("sqrt", s), zero), -4.0, 0.0),
        ("log chosen", make("where", positive, make("log", s), s), 0.0, 1.0),
        ("exp chosen", make("where", make("lt", s, one), make("exp", s), s), 1e4, 1.0),
        ("power", make("pow", s, const(3.0)), 2.0, 12.0),
        ("power of one", make("pow", s, one), 5.0, 1.0),
        ("square at zero", make("pow", s, const(2.0)), 0.0, 0.0),
        ("no power", make("pow", s, zero), 5.0, 0.0),
        ("inverse", make("pow", s, const(-1.0)), 2.0, -0.25),
        ("quotient", make("div", CAP, s), 2.0, -1.25),
        ("difference", make("sub", CAP, s), 2.0, -1.0),
        ("of ints", make("mul", make("float", make("int", s)), s), 2.5, 2.0),
    ]


def hold_tie(label: str, node: Expr, at: float, expected: float) -> None:
    found = evaluate(derivative(node, SCORE), {"score": np.float64(at), "cap": 5.0})
    assert np.allclose(found, expected, rtol=1e-12, atol=0.0), f"{label}: {found}, not {expected}"


def check_ties(rng: Random) -> None:
    for case in ties():
        hold_tie(*case)
