"""Python syntax tree -> Expr, first half: literals, names and operators, with their checks."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, field

from fagen.spec.errors import Diagnostic, did_you_mean
from fagen.spec.expr import Expr, const
from fagen.spec.fold import Refusal, build, literal
from fagen.spec.scope import UNROLLED, Rule, Scope
from fagen.spec.semantics import FUNCTIONS, TypeMismatch
from fagen.spec.source import Text

#: Limits on what one expression may expand to.
MOST_NODES, DEEPEST, TALLEST, LARGEST_POWER = 20_000, 100, 500, 31

BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor",
    ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
COMPARISON: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_USUAL = {
    "q": "q_idx", "k": "kv_idx", "kv": "kv_idx", "k_idx": "kv_idx", "m": "q_idx", "n": "kv_idx",
    "head": "h", "true": "True", "false": "False", "infinity": "inf", "INF": "inf",
    "seq_len": "kv_len", "num_heads": "heads",
}  # fmt: skip
_FOREIGN = {
    ast.Attribute: "an attribute (`a.b`)", ast.Lambda: "a lambda", ast.List: "a list",
    ast.Tuple: "a tuple", ast.Dict: "a dict", ast.Set: "a set", ast.JoinedStr: "text",
    ast.ListComp: "a list", ast.GeneratorExp: "a `for`", ast.SetComp: "a set",
    ast.DictComp: "a dict", ast.NamedExpr: "`:=`", ast.Starred: "`*`", ast.Await: "`await`",
    ast.Yield: "`yield`", ast.YieldFrom: "`yield`", ast.Slice: "a slice",
}  # fmt: skip


class TooLarge(Exception):
    """The expression expands to more than any kernel could hold."""

    hint = "fewer or shorter loops and functions"


@dataclass
class Lowered:
    """An expression and the names that were looked up for it."""

    node: Expr | None
    uses: set[str]


@dataclass
class Run:
    """What the texts of one expression, its own and those of the functions it calls, share."""

    problems: list[Diagnostic]
    rule: Rule
    uses: set[str] = field(default_factory=set)
    nodes: int = 0
    depth: int = 0
    sizes: dict[Expr, tuple[int, int]] = field(default_factory=dict)


class Operators(ast.NodeVisitor):
    """Literals, names and operators of one text.

    Every visit returns an Expr, or None after it has reported why not.
    """

    def __init__(
        self, text: Text, place: str, scope: Scope, run: Run, local: dict[str, Expr | None]
    ) -> None:
        self.text, self.place, self.scope, self.state, self.local = text, place, scope, run, local

    def visit(self, node: ast.AST) -> Expr | None:
        self.state.nodes += 1
        self.state.depth += 1
        if self.state.nodes > MOST_NODES:
            raise TooLarge(f"expands to more than {MOST_NODES} operations")
        if self.state.depth > DEEPEST:
            raise RecursionError
        try:
            return super().visit(node)
        finally:
            self.state.depth -= 1

    def generic_visit(self, node: ast.AST) -> Expr | None:
        what = _FOREIGN.get(type(node), "this")
        hint = ""
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            hint = f"write `{node.attr}`"
        return self.fail(node, f"{what} is not part of the language", hint)

    def fail(self, node: ast.AST, message: str, hint: str = "") -> Expr | None:
        """Reports an error under a node; always None, so that a visit can return it."""
        assert isinstance(node, (ast.expr, ast.keyword))
        end = node.end_col_offset or node.col_offset + 1
        problem = self.text.error(message, node.col_offset, end, hint)
        if problem not in self.state.problems:
            self.state.problems.append(problem)
        return None

    def build(self, at: ast.AST, op: str, *args: Expr | None) -> Expr | None:
        present = [a for a in args if a is not None]
        if len(present) < len(args):
            return None
        try:
            node = build(op, present, self.scope.bounds)
        except TypeMismatch as error:
            return self.fail(at, str(error))
        except Refusal as error:
            return self.fail(at, str(error), error.hint)
        self.measure(node)
        return node

    def measure(self, node: Expr) -> None:
        """A shared node prints once for each use, so its size as a tree is what counts."""
        sizes = self.state.sizes
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [a for a in top.args if a not in sizes]
            if missing:
                stack.extend(missing)
                continue
            sizes[top] = (
                1 + sum(sizes[a][0] for a in top.args),
                1 + max((sizes[a][1] for a in top.args), default=0),
            )
            stack.pop()
        size, height = sizes[node]
        if size > MOST_NODES:
            raise TooLarge(f"expands to more than {MOST_NODES} operations")
        if height > TALLEST:
            raise TooLarge(f"expands to more than {TALLEST} operations inside one another")

    # Literals and names

    def visit_Constant(self, node: ast.Constant) -> Expr | None:
        value = node.value
        if not isinstance(value, (bool, int, float)):
            what = "text" if isinstance(value, (str, bytes)) else f"`{value}`"
            return self.fail(node, f"{what} is not part of the language")
        written = self.text.value[node.col_offset : node.end_col_offset]
        if value == 0 and re.search("[1-9]", re.split("[eE]", written)[0]):
            value = 5e-324  # as written it is not 0, though no float64 is nearer
        try:
            return literal(value)
        except Refusal as error:
            return self.fail(node, str(error), error.hint)

    def visit_Name(self, node: ast.Name) -> Expr | None:
        word, scope = node.id, self.scope
        if word in self.local:
            return self.permitted(node, self.local[word])
        self.state.uses.add(word)
        if word == "inf":
            return const(float("inf"))
        if word == "inherited" and scope.inherited is not None:
            return self.permitted(node, scope.inherited)
        if word in scope.values:
            return self.permitted(node, scope.values[word])
        if word in scope.tensors:
            return self.element(node, word, [])
        return self.unknown(node)

    def unknown(self, node: ast.Name) -> Expr | None:
        word, scope = node.id, self.scope
        if word in scope.later:
            hint = f"move `{word}` above; each name sees the ones before it"
            return self.fail(node, f"`{word}` is used in {self.place} before it is defined", hint)
        if word in scope.functions or word in FUNCTIONS or word in UNROLLED:
            return self.fail(node, f"`{word}` is a function", f"call it: `{word}(...)`")
        if word == "inherited":
            hint = "`mask` and `score` of a variant that `extends` another have it"
            return self.fail(node, f"there is nothing `inherited` in {self.place}", hint)
        known = scope.known() | set(self.local) | scope.later
        hint = f"did you mean `{_USUAL[word]}`?" if word in _USUAL else did_you_mean(word, known)
        hint = hint or "declare it under `parameters`, `tensors` or `let`"
        return self.fail(node, f"unknown name `{word}` in {self.place}", hint)

    def permitted(self, at: ast.AST, node: Expr | None) -> Expr | None:
        """The node, unless the place it is to stand in refuses something in it."""
        if node is None or (found := self.state.rule.check(node)) is None:
            return node
        leaf, reason = found
        place = self.state.rule.place
        if leaf is node:
            shown = f"`{leaf.value}`"
            return self.fail(at, f"{shown} may not occur in {place}", reason)
        shown = ast.unparse(at)
        message = f"`{shown}` depends on `{leaf.value}`, which may not occur in {place}"
        return self.fail(at, message, reason)

    # What loops, rows and calls expand to is the business of `expand.Lowering`.

    def element(self, at: ast.AST, word: str, index_nodes: list[ast.expr]) -> Expr | None:
        raise NotImplementedError

    def member(self, at: ast.AST, value: Expr | None, row: ast.expr) -> Expr | None:
        raise NotImplementedError

    # Operators

    def visit_BinOp(self, node: ast.BinOp) -> Expr | None:
        left = self.visit(node.left)
        right = self.visit(node.right)
        if isinstance(node.op, ast.Pow):
            return self.power(node, left, right)
        if type(node.op) not in BINARY:
            return self.fail(node, "`@` is not part of the language")
        return self.build(node, BINARY[type(node.op)], left, right)

    def power(self, node: ast.BinOp, base: Expr | None, exponent: Expr | None) -> Expr | None:
        if base is None or exponent is None:
            return None
        if exponent.op == "const" and math.isinf(float(exponent.value or 0)):
            hint = "where it is meant, write what the power is then"
            return self.fail(node.right, "the exponent of `**` must be finite", hint)
        if exponent.op != "const":
            hint = "write `exp2(x)`" if base.op == "const" else "write `exp2(y * log2(x))`"
            return self.fail(node.right, "the exponent of `**` must be a constant", hint)
        if (base.type, exponent.type) != ("int", "int") or int(exponent.value or 0) < 0:
            return self.build(node, "pow", base, exponent)
        times = int(exponent.value or 0)
        if times > LARGEST_POWER:
            hint = f"write `{times}.0` for a float power"
            return self.fail(node.right, f"an int power is at most {LARGEST_POWER}", hint)
        result: Expr | None = base if times else const(1)
        for _ in range(times - 1):
            result = self.build(node, "mul", result, base)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Expr | None:
        if isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant) and repr(node.operand.value) == str(2**31):
                return const(-(2**31))  # the literal alone would not fit
            return self.build(node, "neg", self.visit(node.operand))
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand if self.build(node, "neg", operand) is not None else None
        return self.build(node, "not" if isinstance(node.op, ast.Not) else "invert", operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> Expr | None:
        word = "and" if isinstance(node.op, ast.And) else "or"
        operands = []
        for value in node.values:
            operand = self.visit(value)
            if operand is not None and operand.type != "bool":
                operand = self.fail(value, f"`{word}` needs bools, not {a(operand.type)}")
            operands.append(operand)
        return self.joined(node, word, operands)

    def joined(self, at: ast.AST, op: str, operands: list[Expr | None]) -> Expr | None:
        result = operands[0]
        for operand in operands[1:]:
            result = self.build(at, op, result, operand)
        if len(operands) == 1 and op in ("and", "or") and result is not None:
            return self.build(at, op, result, const(op == "and"))
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Expr | None:
        test, yes, no = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        if test is not None and test.type != "bool":
            return self.fail(node.test, f"the condition must be a bool, not {a(test.type)}")
        return self.build(node, "where", test, yes, no)

    def visit_Compare(self, node: ast.Compare) -> Expr | None:
        parts: list[Expr | None] = []
        left = self.visit(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, (ast.In, ast.NotIn)):
                right, found = None, self.member(node, left, right_node)
                parts.append(self.build(node, "not", found) if isinstance(op, ast.NotIn) else found)
            elif type(op) in COMPARISON:
                right = self.visit(right_node)
                parts.append(self.build(node, COMPARISON[type(op)], left, right))
            else:
                right = self.fail(node, "`is` is not part of the language", "compare with `==`")
                parts.append(None)
            left = right
        return self.joined(node, "and", parts) if len(parts) > 1 else parts[0]


def a(kind: str) -> str:
    """The type's name with its article."""
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
