"""d(score')/d(score) by a rule table on the DAG; ties are split as in torch.

Reverse accumulation: each node's adjoint is summed over its uses, so shared subexpressions are
differentiated once. What a `where`, `min`, `max` or `clamp` discards has adjoint 0 and stays 0
even where its own slope is infinite: sqrt(max(score, 0)) has derivative 0 below 0, not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fagen.analysis.linear import both
from fagen.analysis.products import fadd, fmul
from fagen.spec.expr import FALSE, Expr, const, is_const, make, post_order

ZERO, ONE, HALF = const(0.0), const(1.0), const(0.5)
Rule = Callable[[Expr], tuple[Expr, ...]]
#: From a node and its adjoint to what each operand receives.
Selection = Callable[[Expr, Expr], tuple[Expr, ...]]


def derivative(root: Expr, variable: Expr) -> Expr:
    """d(root)/d(variable) for a float expression; 0.0 where it does not depend on it."""
    order = list(post_order(root))
    depends: set[Expr] = {variable}
    for node in order:
        if node.type == "float" and any(a in depends for a in node.args):
            depends.add(node)
    adjoint: dict[Expr, Expr] = {root: ONE}
    if root not in depends:
        return ZERO
    for node in reversed(order):
        if node not in depends or node is variable or node not in adjoint:
            continue
        for argument, part in zip(node.args, _parts(node, adjoint[node]), strict=True):
            if argument in depends and argument.type == "float":
                adjoint[argument] = fadd(adjoint.get(argument, ZERO), part)
    return adjoint.get(variable, ZERO)


def _parts(node: Expr, adjoint: Expr) -> tuple[Expr, ...]:
    if node.op in SELECTIONS:
        return SELECTIONS[node.op](node, adjoint)
    if node.op in RULES:
        return tuple(_scaled(adjoint, slope, node) for slope in RULES[node.op](node))
    raise KeyError(f"no derivative of `{node.op}`")


def _scaled(adjoint: Expr, slope: Expr, node: Expr) -> Expr:
    product = fmul(adjoint, slope)
    if is_const(product) or is_const(slope) or node.op in _FINITE_SLOPE:
        return product
    if all(n.op != "where" for n in post_order(adjoint)):
        return product
    return make("where", make("eq", adjoint, ZERO), ZERO, product)


def _if(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return no if condition is FALSE or yes is no else make("where", condition, yes, no)


def _neg(x: Expr) -> Expr:
    return make("neg", x)


def _extremum(comparison: str) -> Selection:
    def rule(node: Expr, adjoint: Expr) -> tuple[Expr, Expr]:
        a, b = node.args
        tie, first = make("eq", a, b), make(comparison, a, b)
        half = fmul(HALF, adjoint)
        return _if(tie, half, _if(first, adjoint, ZERO)), _if(tie, half, _if(first, ZERO, adjoint))

    return rule


def _clamp(node: Expr, adjoint: Expr) -> tuple[Expr, Expr, Expr]:
    x, low, high = node.args
    inside = both(make("ge", x, low), make("le", x, high))
    below = both(make("lt", x, low), make("lt", low, high))
    above = make("or", make("gt", x, high), make("lt", high, low))
    return _if(inside, adjoint, ZERO), _if(below, adjoint, ZERO), _if(above, adjoint, ZERO)


def _magnitude(node: Expr, adjoint: Expr) -> tuple[Expr]:
    x = node.args[0]
    negated = fmul(const(-1.0), adjoint) if is_const(adjoint) else _neg(adjoint)
    return (_if(make("gt", x, ZERO), adjoint, _if(make("lt", x, ZERO), negated, ZERO)),)


def _choice(node: Expr, adjoint: Expr) -> tuple[Expr, Expr, Expr]:
    condition = node.args[0]
    return ZERO, _if(condition, adjoint, ZERO), _if(condition, ZERO, adjoint)


def _power(node: Expr) -> tuple[Expr, Expr]:
    base, exponent = node.args
    p = float(exponent.value)  # type: ignore[arg-type]
    if p == 0.0:
        return ZERO, ZERO
    rest = ONE if p == 1.0 else base if p == 2.0 else make("pow", base, const(p - 1.0))
    return fmul(const(p), rest), ZERO


RULES: dict[str, Rule] = {
    "neg": lambda n: (const(-1.0),),
    "add": lambda n: (ONE, ONE),
    "sub": lambda n: (ONE, const(-1.0)),
    "mul": lambda n: (n.args[1], n.args[0]),
    "div": lambda n: (
        make("div", ONE, n.args[1]),
        _neg(make("div", n, n.args[1])),
    ),
    "pow": _power,
    "floor": lambda n: (ZERO,),
    "exp": lambda n: (n,),
    "exp2": lambda n: (fmul(n, const(math.log(2.0))),),
    "log": lambda n: (make("div", ONE, n.args[0]),),
    "log2": lambda n: (make("div", const(math.log2(math.e)), n.args[0]),),
    "tanh": lambda n: (make("sub", ONE, make("mul", n, n)),),
    "sigmoid": lambda n: (make("mul", n, make("sub", ONE, n)),),
    "sqrt": lambda n: (make("div", HALF, n),),
    "rsqrt": lambda n: (make("mul", const(-0.5), make("mul", n, make("mul", n, n))),),
    "sin": lambda n: (make("cos", n.args[0]),),
    "cos": lambda n: (_neg(make("sin", n.args[0])),),
}

SELECTIONS: dict[str, Selection] = {
    "min": _extremum("lt"),
    "max": _extremum("gt"),
    "clamp": _clamp,
    "abs": _magnitude,
    "where": _choice,
}

_FINITE_SLOPE = ("tanh", "sigmoid", "sin", "cos")
