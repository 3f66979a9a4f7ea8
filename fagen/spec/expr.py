"""Expressions of the variant language: an interned DAG in which every distinct node exists once.

Two expressions are equal exactly when they are the same object, so analyses may key dictionaries by
node and shared subexpressions are computed once. Nodes are built by `make`, `const`, `name` and
`read`; types are checked while building (`TypeMismatch`).
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Literal, cast

from fagen.spec.semantics import OPERATIONS, TypeMismatch

Type = Literal["int", "float", "bool"]
Scalar = int | float | bool


class Expr:
    """One node. `op` is "const", "name", "read" or a key of `semantics.OPERATIONS`.

    `value` holds the constant, the name, or the tensor read; `args` the operands (for a read, the
    indices). Never build one directly: `make` and its companions keep the nodes unique.
    """

    __slots__ = ("__weakref__", "args", "op", "type", "value")

    op: str
    args: tuple[Expr, ...]
    value: Scalar | str | None
    type: Type

    def __repr__(self) -> str:
        from fagen.spec.text import to_text

        return to_text(self)

    def __reduce__(self):
        return (_rebuild, (self.op, self.args, self.value, self.type))


_nodes: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()


def _intern(op: str, args: tuple[Expr, ...], value: Scalar | str | None, type: Type) -> Expr:
    # repr tells 0.0 from -0.0 and 1 from True, which compare equal; id is stable while args live.
    key = (op, tuple(id(a) for a in args), repr(value), type)
    node = _nodes.get(key)
    if node is None:
        node = Expr()
        node.op, node.args, node.value, node.type = op, args, value, type
        _nodes[key] = node
    return node


def _rebuild(op: str, args: tuple[Expr, ...], value: Scalar | str | None, type: Type) -> Expr:
    return _intern(op, args, value, type)


def const(value: Scalar) -> Expr:
    """A literal; its type is that of the Python value."""
    kind: Type = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    return _intern("const", (), value, kind)


def name(text: str, type: Type = "int") -> Expr:
    """An index name, a length, a parameter, or `score`."""
    return _intern("name", (), text, type)


def read(tensor: str, indices: tuple[Expr, ...], type: Type) -> Expr:
    """An element of a tensor; raises TypeMismatch unless every index is an int."""
    for position, index in enumerate(indices):
        if index.type != "int":
            raise TypeMismatch(f"index {position} of `{tensor}` is {index.type}, not int")
    return _intern("read", indices, tensor, type)


def make(op: str, *args: Expr) -> Expr:
    """The node `op(*args)`; raises TypeMismatch. An int beside a float becomes a float."""
    operation = OPERATIONS[op]
    if len(args) != operation.arity:
        raise TypeMismatch(f"`{op}` takes {operation.arity} operands, not {len(args)}")
    kind = cast(Type, operation.result([a.type for a in args]))
    if operation.needs_float or (operation.promotes and any(a.type == "float" for a in args)):
        args = tuple(make("float", a) if a.type == "int" else a for a in args)
    if op == "float" and args[0].type == "float":
        return args[0]
    if op == "int" and args[0].type == "int":
        return args[0]
    if op == "float" and args[0].op == "const":
        return const(float(args[0].value))  # type: ignore[arg-type]
    return _intern(op, args, None, kind)


TRUE, FALSE = const(True), const(False)


def is_const(node: Expr, value: Scalar | None = None) -> bool:
    """Whether `node` is a literal (and, when given, this number of either int or float type)."""
    if node.op != "const":
        return False
    if value is None:
        return True
    return node.value == value and isinstance(node.value, bool) == isinstance(value, bool)


def post_order(*roots: Expr) -> Iterator[Expr]:
    """Every node below the roots once, operands before the nodes that use them."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args) if a not in seen)


def rebuild(root: Expr, change: Callable[[Expr, tuple[Expr, ...]], Expr]) -> Expr:
    """The DAG with each node replaced by `change(node, new_args)`, bottom up, each once."""
    done: dict[Expr, Expr] = {}
    for node in post_order(root):
        done[node] = change(node, tuple(done[a] for a in node.args))
    return done[root]


def extreme(op: Literal["row_min", "row_max"], node: Expr) -> Expr:
    """The least or greatest value of a row expression over the rows of the stationary tile.

    Not writable in the language: analyses use it where no closed form exists.
    """
    return _intern(op, (node,), None, node.type)


def saturated(node: Expr) -> Expr:
    """A float kept finite (unless infinite) when multiplied by log2(e) in float32.

    Not writable in the language: the base-2 rewrite puts it around what is read from memory.
    """
    return _intern("saturate", (node,), None, "float")


def kernel_node(op: str, args: tuple[Expr, ...], value: str, type: Type) -> Expr:
    """A node of code generation: "row_of" a table or "load" from such a row."""
    return _intern(op, args, value, type)


def with_args(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operation on other operands."""
    if args == node.args:
        return node
    if node.op == "read":
        return read(str(node.value), args, node.type)
    if node.op in ("row_min", "row_max", "saturate"):
        return _intern(node.op, args, None, node.type)
    if node.op in ("row_of", "load"):
        return _intern(node.op, args, node.value, node.type)
    return make(node.op, *args)


def substitute(root: Expr, table: dict[Expr, Expr]) -> Expr:
    """The DAG with every node in `table` replaced (replacements are not searched again)."""

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        return table[node] if node in table else with_args(node, args)

    return rebuild(root, change)


def names_in(*roots: Expr) -> set[str]:
    return {str(n.value) for n in post_order(*roots) if n.op == "name"}


def tensors_in(*roots: Expr) -> set[str]:
    return {str(n.value) for n in post_order(*roots) if n.op == "read"}


LOG2E = math.log2(math.e)
LN2 = math.log(2.0)
