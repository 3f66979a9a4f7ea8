"""Whether the decisions of a call, such as `x < y` of floats, hold under float32's roundings."""

from __future__ import annotations

import torch

from fagen.spec.expr import Expr, post_order
from fagen.verify.cases import Case
from fagen.verify.dense import FLOAT32_ROUNDOFF, Rounding
from fagen.verify.evaluate import evaluate
from fagen.verify.inputs import Inputs
from fagen.verify.packed import Sequence
from fagen.verify.reference import Block, Setting, _index_names, blocks, select

#: Operations that jump: an operand off by a rounding may change their result by a whole.
JUMPS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "int", "floor"})
#: Operations whose result is the nearest float32: where that is the exact one, nothing is off.
ROUNDED = frozenset({
    "const", "name", "read", "float", "neg", "add", "sub", "mul", "abs", "min", "max", "clamp",
    "where", "floor",
})  # fmt: skip
DRAWS = 6
#: Roundings of float32 by which every float may be off.
ULPS = 16.0


def is_settled(inputs: Inputs | Sequence, case: Case) -> bool:
    """Whether every jump on floats, in mask, score and sink, gives one result under noise."""
    setting = inputs.setting
    variant = setting.variant
    roots = [variant.mask, variant.score, *([variant.sink] if variant.sink is not None else [])]
    jumps = [n for n in post_order(*roots) if n.op in JUMPS and n.args[0].type == "float"]
    if not jumps:
        return True
    dtype = getattr(torch, case.dtype)
    q, k = (x.to(dtype).to(torch.float64) for x in inputs.exact[:2])
    generator = torch.Generator(q.device).manual_seed(1)
    noise = Rounding(None, generator)
    for block in blocks(setting):
        part_q, part_k, _ = select(setting, block, q, k, inputs.exact[2])
        magnitude = setting.scale * (part_q.abs() @ part_k.abs().mT)
        product = part_q @ part_k.mT * setting.scale
        for node in jumps:
            if not _one_result(node, setting, block, product, magnitude, noise):
                return False
    return True


def _one_result(
    node: Expr,
    setting: Setting,
    block: Block,
    product: torch.Tensor,
    magnitude: torch.Tensor,
    noise: Rounding,
) -> bool:
    names = {**_index_names(setting, block), "score": product}

    def hook(node: Expr, value: torch.Tensor) -> torch.Tensor:
        is_score = node.op == "name" and node.value == "score"
        if not is_score and node.op in ROUNDED and bool((value.float() == value).all()):
            return value
        size = magnitude if is_score else value.abs()
        least = 1.0 if node.op in ("tanh", "sigmoid", "sin", "cos") else 0.0
        ticket = torch.rand(value.shape, generator=noise.generator, dtype=torch.float64,
                            device=value.device)  # fmt: skip
        bound = ULPS * FLOAT32_ROUNDOFF * size.clamp(min=least)
        return torch.where(torch.isfinite(value), value + (2.0 * ticket - 1.0) * bound, value)

    plain = evaluate(node, names, setting.tensors)
    return all(
        bool((evaluate(node, names, setting.tensors, hook=hook) == plain).all())
        for _ in range(DRAWS)
    )
