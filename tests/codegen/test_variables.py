"""A value computed before the loops must still be there when the last loop reads it."""

from __future__ import annotations

import ast
import re

import pytest

from fagen.codegen.render import render
from fagen.spec.load import find_variant, load_text, load_variant, shipped_names

#: What the templates carry from tile to tile, or narrow step by step, on purpose.
CARRIED = {"acc", "running_max", "running_sum", "dk", "dv", "dq", "delta", "tile", "next_tile"}
# `_` stands for several results of `locate`.
NARROWED = {"_", "first", "stop", "full_first", "full_stop", "swap", "smaller_end"}
FOUND = {"live_first", "live_stop", "sure_first", "sure_stop", "sure_count", "unbroken"}
LISTED = {"full_count", "masked_count", "masked", "place", "live", "full"}
EPILOGUE = {"q_row", "q_idx", "shift", "new_max", "correction", "lse", "out", "inverse"}

CLASHES = {
    "a row value and a step of the walk": """
        name: x
        parameters: {window: {type: int, default: 5, min: 1}}
        mask: 0 <= q_idx - kv_idx < window
        """,
    "a row value and a tile value": """
        name: x
        tensors: {t: {shape: [batch, kv_len], dtype: int32}}
        mask: t[b, kv_idx] - 3 < t[b, q_idx] - 4 and t[b, kv_idx] // 3 == t[b, q_idx] // 3
        score: score + t[b, kv_idx] * 0.5 - t[b, kv_idx] * t[b, q_idx]
        """,
}


def kernels(source: str) -> list[ast.FunctionDef]:
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    return [f for f in functions if f.name.endswith("_kernel")]


def overwritten(kernel: ast.FunctionDef) -> set[str]:
    """Names assigned more than once on one path: outside of loops twice, or outside and inside."""
    allowed = CARRIED | NARROWED | FOUND | LISTED | EPILOGUE
    outside: list[str] = []
    inside: set[str] = set()

    def visit(statements: list[ast.stmt], in_loop: bool) -> None:
        for s in statements:
            for node in ast.walk(s) if not isinstance(s, ast.For) else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    inside.add(node.id) if in_loop else outside.append(node.id)
            if isinstance(s, ast.For):
                visit(s.body, True)

    visit(kernel.body, False)
    twice = {n for n in outside if outside.count(n) > 1} | (set(outside) & inside)
    # Of several ranges each has its own ends: first_0, stop_of_1.
    return {n for n in twice if re.sub(r"(_of)?_\d+$", "", n) not in allowed}


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_variants(name: str) -> None:
    for kernel in kernels(render(load_variant(find_variant(name)))):
        assert not overwritten(kernel), kernel.name


@pytest.mark.parametrize("text", CLASHES.values(), ids=CLASHES)
def test_names_that_would_clash(text: str) -> None:
    for kernel in kernels(render(load_text(text))):
        assert not overwritten(kernel), kernel.name


def test_the_check_sees_an_overwritten_value() -> None:
    source = "def a_kernel():\n    x = 1\n    for i in y:\n        x = 2\n    z = x\n"
    assert overwritten(kernels(source)[0]) == {"x"}
