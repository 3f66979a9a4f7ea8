"""Python syntax tree -> Expr, second half: tensors, calls and loops, expanded as they stand."""

from __future__ import annotations

import ast
from typing import TypeGuard

from fagen.spec.errors import Diagnostic, did_you_mean
from fagen.spec.expr import Expr, const, read
from fagen.spec.lower import Lowered, Operators, Run, a
from fagen.spec.names import INDEX_OF_DIMENSION
from fagen.spec.scope import UNROLLED, Function, Rule, Scope, misnamed
from fagen.spec.semantics import FUNCTIONS, OPERATIONS
from fagen.spec.source import Text
from fagen.spec.variant import Tensor

#: Steps of one loop, and entries of one row.
MOST_UNROLLED = 256

_FUNCTION_HINTS = {
    "pow": "write `x ** 2`",
    "fabs": "write `abs(x)`",
    "maximum": "write `max(a, b)`",
    "minimum": "write `min(a, b)`",
    "round": "write `floor(x + 0.5)`",
    "ceil": "write `-floor(-x)`",
    "log10": "write `log2(x) * 0.30103`",
    "bool": "compare with something, such as `x != 0`",
    "select": "write `a if condition else b`",
}


class Lowering(Operators):
    """Lowers one text; the body of a called function is a text of its own in the same run."""

    @staticmethod
    def run(
        tree: ast.expr, text: Text, place: str, scope: Scope, rule: Rule, problems: list[Diagnostic]
    ) -> Lowered:
        """Raises TooLarge and, on absurd nesting, RecursionError."""
        state = Run(problems, rule)
        node = Lowering(text, place, scope, state, {}).visit(tree)
        return Lowered(node, state.uses)

    # Tensors

    def visit_Subscript(self, node: ast.Subscript) -> Expr | None:
        if (word := self.tensor_name(node)) is None:
            return None
        slices = [i for i in _indices(node) if isinstance(i, ast.Slice)]
        if slices:
            hint = f"`value in {word}[..., :]` asks whether a row holds a value"
            return self.fail(slices[0], "a slice may only follow `in`", hint)
        return self.element(node, word, list(_indices(node)))

    def tensor_name(self, node: ast.Subscript) -> str | None:
        if not isinstance(node.value, ast.Name):
            self.fail(node.value, "only a tensor can be indexed")
            return None
        word = node.value.id
        self.state.uses.add(word)
        if word in self.scope.tensors and word not in self.local:
            return word
        if word in self.local or word in self.scope.values or word in self.scope.kinds:
            self.fail(node.value, f"`{word}` is not a tensor", "only a tensor has indices")
            return None
        hint = did_you_mean(word, self.scope.tensors) or "declare it under `tensors`"
        self.fail(node.value, f"unknown tensor `{word}` in {self.place}", hint)
        return None

    def element(self, at: ast.AST, word: str, index_nodes: list[ast.expr]) -> Expr | None:
        indices = [self.visit(i) for i in index_nodes]
        return self.read(at, word, indices, index_nodes)

    def read(
        self, at: ast.AST, word: str, indices: list[Expr | None], nodes: list[ast.expr]
    ) -> Expr | None:
        tensor = self.scope.tensors[word]
        if tensor is None:
            return None
        if len(indices) != len(tensor.shape):
            axes, shape = (
                _count(len(tensor.shape), "axis", "axes"),
                ", ".join(map(str, tensor.shape)),
            )
            given = _count(len(indices), "index", "indices")
            hint = "" if indices else f"write `{word}[{_usual_indices(tensor)}]`"
            return self.fail(at, f"`{word}` [{shape}] has {axes} but is read with {given}", hint)
        for index, node in zip(indices, nodes, strict=False):
            if index is not None and index.type != "int":
                hint = "convert it with `int(...)`" if index.type == "float" else ""
                self.fail(node, f"an index must be an int, not {a(index.type)}", hint)
                return None
        present = tuple(i for i in indices if i is not None)
        if len(present) < len(indices):
            return None
        element = read(word, present, tensor.type)
        self.measure(element)
        return self.permitted(at, element)

    def member(self, at: ast.AST, value: Expr | None, row: ast.expr) -> Expr | None:
        """`value in table[b, i, :]`: equal to any of a row whose length is known now."""
        indices = list(_indices(row)) if isinstance(row, ast.Subscript) else []
        whole = bool(indices) and isinstance(indices[-1], ast.Slice) and ast.unparse(indices[-1])
        if not isinstance(row, ast.Subscript) or whole != ":":
            return self.fail(
                row, "behind `in` stands a row of a tensor", "write `value in table[b, q_idx, :]`"
            )
        if (word := self.tensor_name(row)) is None:
            return None
        before = [self.visit(i) for i in indices[:-1]]
        tensor = self.scope.tensors[word]
        if tensor is None or any(i is None for i in before):
            return None
        length = tensor.shape[-1] if tensor.shape else 0
        if len(indices) != len(tensor.shape):
            return self.read(row, word, [*before, const(0)], indices)
        if not isinstance(length, int):
            hint = "give the last axis of its shape as an integer"
            return self.fail(row, f"`in` needs a row of known length; `{length}` is not", hint)
        if length > MOST_UNROLLED:
            return self.fail(row, f"`in` unrolls at most {MOST_UNROLLED} entries, not {length}")
        found = []
        for i in range(length):
            entry = self.read(row, word, [*before, const(i)], indices)
            found.append(self.build(at, "eq", value, entry))
            if found[-1] is None:
                return None
        return self.joined(at, "or", found)

    # Calls

    def visit_Call(self, node: ast.Call) -> Expr | None:
        if not isinstance(node.func, ast.Name):
            return self.visit(node.func)
        word = node.func.id
        if node.keywords:
            return self.fail(node.keywords[0], "arguments have no names here")
        if word in UNROLLED:
            return self.unrolled(node, word)
        args = [self.visit(a) for a in node.args]
        if word in self.scope.functions:
            self.state.uses.add(word)
            self.scope.called.add(word)
            return self.call(node, self.scope.functions[word], args)
        if word in FUNCTIONS:
            return self.builtin(node, word, args)
        if word in self.local or word in self.scope.values or word in self.scope.tensors:
            self.state.uses.add(word)
            return self.fail(node.func, f"`{word}` is not a function")
        known = {*FUNCTIONS, *UNROLLED, *self.scope.functions}
        hint = _FUNCTION_HINTS.get(word) or did_you_mean(word, known)
        return self.fail(node.func, f"unknown function `{word}` in {self.place}", hint)

    def builtin(self, node: ast.Call, word: str, args: list[Expr | None]) -> Expr | None:
        arity = OPERATIONS[word].arity
        if word in ("min", "max") and len(args) >= 2:
            return self.joined(node, word, args)
        if len(args) != arity:
            more = " or more" if word in ("min", "max") else ""
            takes = f"{arity}{more} {'argument' if arity == 1 else 'arguments'}"
            return self.fail(node, f"`{word}` takes {takes}, not {len(args)}")
        return self.build(node, word, *args)

    def call(
        self, node: ast.Call, function: Function | None, args: list[Expr | None]
    ) -> Expr | None:
        if function is None:
            return None
        if len(args) != len(function.args):
            takes = _count(len(function.args), "argument", "arguments")
            signature = f"{function.name}({', '.join(function.args)})"
            return self.fail(node, f"`{signature}` takes {takes}, not {len(args)}")
        local = dict(zip(function.args, args, strict=True))
        body = Lowering(function.text, f"`{function.name}`", self.scope, self.state, local)
        return body.visit(function.body)

    def unrolled(self, node: ast.Call, word: str) -> Expr | None:
        """`any(expr for i in range(N))` with a constant N."""
        form = f"write `{word}(... for i in range(N))`"
        loop = node.args[0] if len(node.args) == 1 else None
        if not isinstance(loop, ast.GeneratorExp) or len(loop.generators) != 1:
            return self.fail(node, f"`{word}` takes one `for` over a range", form)
        over = loop.generators[0]
        if over.ifs or over.is_async or not isinstance(over.target, ast.Name):
            return self.fail(node, f"`{word}` takes one plain `for` over a range", form)
        times = over.iter
        if not (
            isinstance(times, ast.Call)
            and isinstance(times.func, ast.Name)
            and times.func.id == "range"
            and len(times.args) == 1
            and not times.keywords
        ):
            return self.fail(over.iter, f"`{word}` runs over `range(N)`", form)
        if (problem := self.taken(over.target)) is not None:
            return self.fail(over.target, problem, "choose another name")
        count = self.visit(times.args[0])
        if count is None:
            return None
        if count.op != "const" or count.type != "int":
            hint = "a number, or an int parameter with `static: true`"
            return self.fail(times.args[0], "the length of a range must be a constant int", hint)
        if int(count.value or 0) > MOST_UNROLLED:
            message = f"a range has at most {MOST_UNROLLED} steps, not {count.value}"
            return self.fail(times.args[0], message)
        outer, terms = self.local, []
        for i in range(int(count.value or 0)):
            self.local = {**outer, over.target.id: const(i)}
            terms.append(self.visit(loop.elt))
            if terms[-1] is None:
                break
        self.local = outer
        if not terms:
            return const(0) if word == "sum" else const(word == "all")
        if word == "sum" and len(terms) == 1:
            return terms[0] if self.build(node, "neg", terms[0]) is not None else None
        return self.joined(node, {"any": "or", "all": "and", "sum": "add"}[word], terms)

    def taken(self, target: ast.Name) -> str | None:
        if problem := misnamed(target.id, "a loop's counter"):
            return problem[0]
        if target.id in self.scope.kinds or target.id in self.local:
            kind = self.scope.kinds.get(target.id, "a name in use")
            return f"`{target.id}` is already {kind}"
        return None


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _usual_indices(tensor: Tensor) -> str:
    """What runs along each axis; `...` where only the variant's author knows."""
    usual = {**INDEX_OF_DIMENSION, "q_len": "q_idx"}
    return ", ".join(usual.get(str(axis), "...") for axis in tensor.shape)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def check_uncalled(functions: list[Function], scope: Scope, problems: list[Diagnostic]) -> None:
    """Types of a function follow from its calls; one that is never called has its names checked."""
    for function in functions:
        if function.name in scope.called:
            continue
        inside = {n.id for n in ast.walk(function.body) if _bound(n)}
        local = dict.fromkeys([*function.args, *inside])
        place = f"`{function.name}`"
        lowering = Lowering(function.text, place, scope, Run(problems, Rule(place)), dict(local))
        known = scope.known() | local.keys() | scope.functions.keys() | FUNCTIONS
        for node in ast.walk(function.body):
            if isinstance(node, ast.Name) and node.id not in known | {*UNROLLED, "range"}:
                lowering.unknown(node)


def _bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
