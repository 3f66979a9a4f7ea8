"""Dense attention and its gradients by explicit formulas, in float64, with chosen roundings put in.

The truth (no rounding), the yardstick (inputs, P and dS rounded) and the float32 allowance (noise)
of `fagen.verify.yardstick` are three runs of this one computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from fagen.spec.expr import Expr
from fagen.verify.evaluate import widen
from fagen.verify.reference import (
    Block,
    Setting,
    blocks,
    kv_heads_of,
    masked_scores,
    scores_of,
    select,
    sink_of,
    softmax,
)

#: Largest noise, in float32 roundings of the magnitudes that went into a value.
NOISE_ULPS = 4.0
FLOAT32_ROUNDOFF = 2.0**-24


@dataclass(frozen=True)
class Dense:
    """One dense computation: each quantity in float64 and where it is zero by definition.

    `zeros[name]` is a bool tensor, true at elements no query-key pair contributes to; `lse` has
    none.
    """

    values: Mapping[str, torch.Tensor]
    zeros: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Rounding:
    """What a dense computation loses: `dtype` rounds inputs, P and dS; `generator` adds noise of
    float32 size, for a kernel whose tiles have at most `tile` rows and keys."""

    dtype: torch.dtype | None = None
    generator: torch.Generator | None = None
    tile: int = 1

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.dtype is None else x.to(self.dtype).to(torch.float64)

    def noise(self, x: torch.Tensor, magnitude: Callable[[], torch.Tensor]) -> torch.Tensor:
        if self.generator is None:
            return x
        bound = NOISE_ULPS * FLOAT32_ROUNDOFF * magnitude().detach()
        disturbed = x + (2.0 * _tickets(x.detach(), self.generator) - 1.0) * bound
        return torch.where(torch.isfinite(x.detach()), disturbed, x)

    def probabilities(self, p: torch.Tensor) -> torch.Tensor:
        """P as the forward pass rounds it: with noise, like exp(score - running maximum), which is
        P times a factor of the row's own, so that each row's roundings fall anew."""
        if self.generator is None:
            return self.value(p)
        shape = (*p.shape[:-1], 1)
        ticket = torch.rand(shape, generator=self.generator, dtype=p.dtype, device=p.device)
        factor = torch.exp2(-ticket)
        return self.value(p * factor) / factor

    def stored(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.generator is None else self.value(x)

    def bias(self, setting: Setting, block: Block, product: torch.Tensor) -> torch.Tensor:
        """The largest magnitude, within a tile's reach of each element, of the score at q.k = 0;
        0 without noise."""
        nothing = product.new_zeros(())
        if self.generator is None or product.numel() == 0:
            return nothing
        bias = scores_of(setting, block, nothing).detach().abs()
        bias = torch.nan_to_num(bias, nan=0.0, posinf=0.0)
        if not bias.any():
            return nothing
        bias = bias.expand(product.shape)
        return _window_maximum(_window_maximum(bias, 2, self.tile), 3, self.tile)

    def hook(self, node: Expr, value: torch.Tensor) -> torch.Tensor:
        # tanh and sigmoid come from exponentials near 1: their error is absolute, not relative.
        least = 1.0 if node.op in ("tanh", "sigmoid") else 0.0
        disturbed = self.noise(value, lambda: value.abs().clamp(min=least))
        if node.op in ("tanh", "sigmoid") and self.generator is not None and value.requires_grad:
            return disturbed + self.slope_noise(node.op, value)
        return disturbed

    def slope_noise(self, op: str, value: torch.Tensor) -> torch.Tensor:
        """Zeros whose derivative is what 1 - y * y, of tanh, or y * (1 - y), of sigmoid, may be off
        by: where those saturate, little is left of the numbers that are subtracted."""
        y, almost = value.detach(), 1.0 - 1e-15
        least = -almost if op == "tanh" else 1.0 - almost
        # Kept off the ends, where the inverse is infinite, but not cut off from its argument.
        inner = value + (y.clamp(least, almost) - y)
        if op == "tanh":
            size, argument = 1.0 + y * y, torch.atanh(inner)
        else:
            size, argument = y, torch.logit(inner)
        share = self.noise(torch.zeros_like(y), lambda: size)
        return share * (argument - argument.detach())


EXACT = Rounding()


def dense(
    setting: Setting,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor,
    rounding: Rounding = EXACT,
) -> Dense:
    """out, lse, dq, dk, dv by explicit formulas, in float64 with `rounding` put in.

    q, k, v are [batch, heads or kv_heads, length, width], grad_out like out, grad_lse
    [batch, heads, q_len]. With P the probabilities and g the derivative of the score:

        dP = dO V^T    delta = rowsum(dO * O)    dS = P * g * (dP - delta + dlse)
        dQ = scale * dS K    dK = scale * dS^T Q    dV = P^T dO
    """
    q, k, v, grad_out = (rounding.value(widen(x)) for x in (q, k, v, grad_out))
    grad_lse = widen(grad_lse)
    total = _Totals.empty(q, k, v)
    for block in blocks(setting):
        part = _block(setting, block, q, k, v, grad_out, grad_lse, rounding)
        box = (block.batch, block.heads, block.rows)
        for name in ("out", "lse", "dq"):
            total.values[name][box] = part[name]
        total.row_empty[box] = ~part["mask"].any(-1)
        kv_head = kv_heads_of(setting, block)
        for name in ("dk", "dv"):
            total.values[name][block.batch] = total.values[name][block.batch].index_add(
                1, kv_head, part[name]
            )
        seen = part["mask"].any(-2).to(torch.int64)
        total.key_seen[block.batch] = total.key_seen[block.batch].index_add(1, kv_head, seen)
    return total.dense()


@dataclass
class _Totals:
    values: dict[str, torch.Tensor]
    row_empty: torch.Tensor
    key_seen: torch.Tensor

    @staticmethod
    def empty(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> _Totals:
        values = {
            "out": q.new_zeros(*q.shape[:3], v.shape[3]),
            "lse": q.new_full(q.shape[:3], -math.inf),
            "dq": torch.zeros_like(q, memory_format=torch.contiguous_format),
            "dk": torch.zeros_like(k, memory_format=torch.contiguous_format),
            "dv": torch.zeros_like(v, memory_format=torch.contiguous_format),
        }
        return _Totals(
            values,
            torch.ones(q.shape[:3], dtype=torch.bool, device=q.device),
            torch.zeros(k.shape[:3], dtype=torch.int64, device=q.device),
        )

    def dense(self) -> Dense:
        unseen = self.key_seen == 0
        zeros = {"out": self.row_empty, "dq": self.row_empty, "dk": unseen, "dv": unseen}
        return Dense(self.values, zeros)


def _block(setting, block, q, k, v, grad_out, grad_lse, rounding) -> dict[str, torch.Tensor]:
    value, noise = rounding.value, rounding.noise
    q, k, v = select(setting, block, q, k, v)
    box = (block.batch, block.heads, block.rows)
    grad_out, grad_lse = grad_out[box], grad_lse[box]
    scale = setting.scale
    product = scale * noise(q @ k.mT, lambda: q.abs() @ k.abs().mT)
    with torch.enable_grad():
        product = product.detach().requires_grad_()
        scores, mask = masked_scores(setting, block, product, hook=rounding.hook)
        slope = _slope(scores, product)
    scores = scores.detach()
    sink = sink_of(setting, block, hook=rounding.hook)
    bias = rounding.bias(setting, block, product)
    scores = noise(scores, lambda: scores.abs() + bias)
    p, lse = softmax(scores, sink)
    # What is wrong with a row's lse or its share of the bias is wrong with all of its elements.
    row_bias = (p * bias).sum(-1)
    p = noise(p, lambda: p * (1.0 + lse.abs().unsqueeze(-1)).where(p > 0, 0.0))
    p = p * noise(torch.ones_like(lse), lambda: row_bias).unsqueeze(-1)
    weights = rounding.probabilities(p)
    out = noise(weights @ v, lambda: weights @ v.abs())
    rounded = value(p)
    dp = noise(grad_out @ v.mT, lambda: grad_out.abs() @ v.abs().mT)
    weighted = grad_out * rounding.stored(out)
    delta = noise(weighted.sum(-1, keepdim=True), lambda: weighted.abs().sum(-1, keepdim=True))
    ds = p * slope * (dp - delta + grad_lse.unsqueeze(-1))
    ds = value(torch.where(mask & (p > 0), ds, 0.0))
    return {
        "mask": mask,
        "out": out,
        "lse": noise(lse, lambda: lse.abs() + row_bias),
        "dq": scale * noise(ds @ k, lambda: ds.abs() @ k.abs()),
        "dk": scale * noise(ds.mT @ q, lambda: ds.abs().mT @ q.abs()),
        "dv": noise(rounded.mT @ grad_out, lambda: rounded.mT @ grad_out.abs()),
    }


def _tickets(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random numbers from 0 to 1, float64, the same for elements of the same float32 value: what
    comes of equal operands is rounded alike, and adds up."""
    salt = torch.randint(2**31, (), generator=generator, device=generator.device)
    bits = x.to(torch.float32).view(torch.int32).to(torch.int64) ^ salt.to(x.device)
    for factor in (0x9E3779B97F4A7C15 - 2**64, 0x94D049BB133111EB - 2**64):
        bits = (bits ^ (bits >> 27 & 2**37 - 1)) * factor
    return (bits >> 11 & 2**53 - 1).to(torch.float64) / 2**53


def _slope(scores: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    if not scores.requires_grad or scores.numel() == 0:
        return torch.zeros_like(product)
    (slope,) = torch.autograd.grad(scores, product, torch.ones_like(scores), allow_unused=True)
    return torch.zeros_like(product) if slope is None else slope


def _window_maximum(x: torch.Tensor, axis: int, reach: int) -> torch.Tensor:
    """The maximum of nonnegative x over the elements less than `reach` away along an axis."""
    wide, step = x, 1
    length = x.shape[axis]
    while step < min(reach, length):
        # Windows that double: each pass joins the one built so far with its neighbours.
        hop = min(step, reach - step)
        right = wide.narrow(axis, hop, length - hop)
        left = wide.narrow(axis, 0, length - hop)
        joined = wide.clone()
        joined.narrow(axis, 0, length - hop).copy_(torch.maximum(left, right))
        inner = joined.narrow(axis, hop, length - hop)
        inner.copy_(torch.maximum(inner, left))
        wide, step = joined, step + hop
    return wide
