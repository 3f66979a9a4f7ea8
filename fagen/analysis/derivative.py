"""d(score')/d(score) by a rule table on the DAG; ties are split as in torch.

Reverse accumulation: each node's adjoint is summed over its uses, so shared subexpressions are
differentiated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fagen.analysis.linear import both
from fagen.analysis.products import fadd, fmul
from fagen.spec.expr import FALSE, Expr, const, make, post_order

ZERO, ONE, HALF = const(0.0), const(1.0), const(0.5)
Rule = Callable[[Expr], tuple[Expr, ...]]


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
        for argument, slope in zip(node.args, _slopes(node), strict=True):
            if argument in depends and argument.type == "float":
                part = fmul(adjoint[node], slope)
                adjoint[argument] = fadd(adjoint.get(argument, ZERO), part)
    return adjoint.get(variable, ZERO)


def _slopes(node: Expr) -> tuple[Expr, ...]:
    return RULES[node.op](node)


def _if(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return no if condition is FALSE else make("where", condition, yes, no)


def _neg(x: Expr) -> Expr:
    return make("neg", x)


def _extremum(comparison: str) -> Rule:
    def rule(node: Expr) -> tuple[Expr, Expr]:
        a, b = node.args
        tie = make("eq", a, b)
        first = _if(tie, HALF, _if(make(comparison, a, b), ONE, ZERO))
        return first, make("sub", ONE, first)

    return rule


def _clamp(node: Expr) -> tuple[Expr, Expr, Expr]:
    x, low, high = node.args
    inside = both(make("ge", x, low), make("le", x, high))
    below = both(make("lt", x, low), make("lt", low, high))
    above = make("or", make("gt", x, high), make("lt", high, low))
    return _if(inside, ONE, ZERO), _if(below, ONE, ZERO), _if(above, ONE, ZERO)


def _power(node: Expr) -> tuple[Expr, Expr]:
    base, exponent = node.args
    p = float(exponent.value)  # type: ignore[arg-type]
    if p == 0.0:
        return ZERO, ZERO
    rest = ONE if p == 1.0 else base if p == 2.0 else make("pow", base, const(p - 1.0))
    return fmul(const(p), rest), ZERO


def _sign_of(x: Expr) -> Expr:
    return _if(make("gt", x, ZERO), ONE, _if(make("lt", x, ZERO), const(-1.0), ZERO))


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
    "min": _extremum("lt"),
    "max": _extremum("gt"),
    "clamp": _clamp,
    "abs": lambda n: (_sign_of(n.args[0]),),
    "where": lambda n: (ZERO, _if(n.args[0], ONE, ZERO), _if(n.args[0], ZERO, ONE)),
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
