"""Numbers in the text of kernels: infinities have no literal, ints past 32 bits ask for 64."""

from __future__ import annotations

import ast
import math

import pytest

from fagen.codegen.render import render
from fagen.spec.fold import FLOAT_MAX
from fagen.spec.load import load_text

FLOATS = [
    "score: score * inf",
    "score: score * -inf",
    "score: -(inf * score) / 2.0",
    "score: score + inf",
    "score: score / inf",
    "score: (score * inf) * 0.0",
    "score: inf * float(kv_idx) + tanh(score)",
    "score: min(score, inf) + max(score, -inf) + clamp(score, -inf, inf)",
    "score: score if float(q_idx) < inf else -inf",
    "score: tanh(score * inf) * inf",
    "mask: float(kv_idx) * inf > -inf",
    "softmax: {sink: -inf}",
    "parameters: {c: {type: float, default: 1.0}}\nsoftmax: {sink: c * inf}",
    "parameters: {c: {type: float, default: .inf, static: true}}\nscore: score * c",
    "tensors: {t: {shape: [heads], dtype: float32, default: inf * h}}\nscore: score * t[h]",
    "score: (1e30 * score) ** 2",
    "score: 1e30 * (1e30 * score + 1.0)",
    "score: (1e-30 * score) ** 4",
    "score: exp(1e20 * (1e20 * score + 1.0)) * 1e20",
    "score: score if q_idx > kv_idx else -3.4e38",
]
#: Every operation that takes ints, beside a constant that 32 bits hold only with a sign, or not.
INTS = [
    "kv_idx > -2147483648",
    "-2147483648 < kv_idx",
    "q_idx - 2147483647 > kv_idx",
    "q_idx + 2147483647 > kv_idx and kv_idx - q_idx < 2147483647",
    "kv_idx >= min(q_idx, 5) - 2147483647",
    "(q_idx if kv_idx > 3 else -2147483648) < kv_idx",
    "q_idx > -2147483648 or head_dim * 2147483647 > kv_idx",
    "(q_idx + 2147483647) // 7 > kv_idx and (kv_idx - 2147483647) % 5 > 0",
    "clamp(kv_idx - 2147483647, -2147483648, -2147483600) + 2147483647 > 0",
    "q_idx - kv_idx != -2147483648 and abs(q_idx - 2147483647) > kv_idx",
    "q_idx * 2147483647 * 2147483647 * 2147483647 > kv_idx",
]


def kernels(source: str) -> list[ast.FunctionDef]:
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    return [f for f in functions if f.name.endswith("_kernel")]


def numbers(tree: ast.AST, kind: type) -> list:
    values = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    return [v for v in values if type(v) is kind]


@pytest.mark.parametrize("text", FLOATS)
def test_floats_of_kernels_are_of_float32(text):
    source = render(load_text(f"name: x\n{text}\n"))
    tree = ast.parse(source)
    assert not {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & {"inf", "nan"}
    for kernel in kernels(source):
        assert all(abs(v) <= FLOAT_MAX for v in numbers(kernel, float))
        for call in (n for n in ast.walk(kernel) if isinstance(n, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "float":
                assert not math.isfinite(float(ast.literal_eval(call.args[0])))


def operands(node: ast.AST) -> list[ast.expr]:
    """The ints that an operation takes to one type."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.minimum", "tl.maximum"):
        return node.args
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.where":
        return node.args[1:]
    return []


@pytest.mark.parametrize("mask", INTS)
def test_ints_past_32_bits_stand_beside_ints_of_64(mask):
    source = render(load_text(f"name: x\nmask: {mask}\n"))
    for kernel in kernels(source):
        assert all(abs(v) < 2**63 for v in numbers(kernel, int))
        for node in ast.walk(kernel):
            large = [o for o in operands(node) if isinstance(o, ast.Constant)]
            if any(type(o.value) is int and o.value >= 2**31 for o in large):
                others = [o for o in operands(node) if o not in large]
                assert any("tl.int64" in ast.unparse(o) for o in others), ast.unparse(node)
