"""How wrong a kernel may be: the error budget of the accuracy section of the design.

The truth is dense float64 attention on the inputs before they were rounded. The yardstick is the
same computation in which only the inputs, P and dS are rounded to the dtype: the least that any
kernel which feeds those to tensor cores must lose. A kernel may err 1.25 times as much, in the
Frobenius norm and in the maximum.

Two allowances are added, both known before a kernel is seen:

- *float32 arithmetic.* The yardstick sums and evaluates exactly; a kernel accumulates in float32.
  With float16 that is invisible, with float32 inputs it is the whole error, and where terms cancel
  (dP - delta of a row with one key is exactly 0) it is the only error and the yardstick's is zero.
  The allowance is measured: the yardstick runs once more with every intermediate disturbed by up
  to `NOISE_ULPS` float32 roundings of the *sum of magnitudes* it came from (a forward error bound,
  made random), and what comes out different is allowed; small problems take the largest of
  several runs, for one draw may be small by luck. It scales with the scores and with the
  cancellation, so a large score or a value near zero needs no tolerance picked by hand. In the
  same runs delta is taken from O as stored, for that is all a backward pass can read.
- *storage and chance.* A result is stored in the dtype (half an ulp), and two sets of roundings
  over few elements differ by luck. Per quantity this is `unit roundoff * norm` times a share that
  falls as one over the square root of the number of elements and vanishes for large tensors.

Where the truth is exactly zero by definition (rows without keys, keys no query may see) no
tolerance applies: `compare` demands zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from fagen.spec.expr import Expr
from fagen.verify.evaluate import widen
from fagen.verify.reference import (
    Setting,
    blocks,
    kv_heads_of,
    masked_scores,
    select,
    sink_of,
    softmax,
)

QUANTITIES = ("out", "lse", "dq", "dk", "dv")
FACTOR = 1.25
NOISE_ULPS = 4.0
SMALL_PROBLEM = 2**16
SMALL_PROBLEM_DRAWS = 8
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
    """What a dense computation loses: `dtype` rounds inputs, P and dS; `generator` adds noise."""

    dtype: torch.dtype | None = None
    generator: torch.Generator | None = None

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.dtype is None else x.to(self.dtype).to(torch.float64)

    def noise(self, x: torch.Tensor, magnitude: Callable[[], torch.Tensor]) -> torch.Tensor:
        if self.generator is None:
            return x
        bound = NOISE_ULPS * FLOAT32_ROUNDOFF * magnitude().detach()
        ticket = torch.rand(x.shape, generator=self.generator, dtype=torch.float64, device=x.device)
        disturbed = x + (2.0 * ticket - 1.0) * bound
        return torch.where(torch.isfinite(x.detach()), disturbed, x)

    def stored(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.generator is None else self.value(x)

    def hook(self, node: Expr, value: torch.Tensor) -> torch.Tensor:
        # tanh and sigmoid come from exponentials near 1: their error is absolute, not relative.
        least = 1.0 if node.op in ("tanh", "sigmoid") else 0.0
        return self.noise(value, lambda: value.abs().clamp(min=least))


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
    scores = noise(scores, scores.abs)
    p, lse = softmax(scores, sink)
    p = noise(p, lambda: p * (1.0 + lse.abs().unsqueeze(-1)).where(p > 0, 0.0))
    rounded = value(p)
    out = noise(rounded @ v, lambda: rounded @ v.abs())
    dp = noise(grad_out @ v.mT, lambda: grad_out.abs() @ v.abs().mT)
    weighted = grad_out * rounding.stored(out)
    delta = noise(weighted.sum(-1, keepdim=True), lambda: weighted.abs().sum(-1, keepdim=True))
    ds = p * slope * (dp - delta + grad_lse.unsqueeze(-1))
    ds = value(torch.where(mask & (p > 0), ds, 0.0))
    return {
        "mask": mask,
        "out": out,
        "lse": noise(lse, lse.abs),
        "dq": scale * noise(ds @ k, lambda: ds.abs() @ k.abs()),
        "dk": scale * noise(ds.mT @ q, lambda: ds.abs().mT @ q.abs()),
        "dv": noise(rounded.mT @ grad_out, lambda: rounded.mT @ grad_out.abs()),
    }


def _slope(scores: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    if not scores.requires_grad or scores.numel() == 0:
        return torch.zeros_like(product)
    (slope,) = torch.autograd.grad(scores, product, torch.ones_like(scores), allow_unused=True)
    return torch.zeros_like(product) if slope is None else slope


@dataclass(frozen=True)
class Budget:
    """The truth of one problem, with the yardstick's error and the limit of each quantity."""

    truth: Dense
    yardstick: Mapping[str, tuple[float, float]]
    limit: Mapping[str, tuple[float, float]]
    dtype: torch.dtype = field(default=torch.float32)


def budget(
    setting: Setting,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor,
    dtype: torch.dtype,
    seed: int,
) -> Budget:
    """The budget for kernels given these float64 inputs rounded to `dtype`.

    `yardstick` and `limit` map a quantity to its (Frobenius, maximum) error, in the quantity's own
    units. lse is stored in float32 whatever the dtype.
    """
    inputs = (setting, q, k, v, grad_out, grad_lse)
    truth = dense(*inputs)
    yard = dense(*inputs, Rounding(dtype))
    generator = torch.Generator(q.device).manual_seed(seed)
    pairs = setting.sizes["batch"] * setting.sizes["heads"] * q.shape[2] * k.shape[2]
    draws = SMALL_PROBLEM_DRAWS if pairs <= SMALL_PROBLEM else 1
    noisy = [dense(*inputs, Rounding(dtype, generator)) for _ in range(draws)]
    yardstick, limit = {}, {}
    for name in QUANTITIES:
        expected = truth.values[name]
        yardstick[name] = norms(yard.values[name], expected)
        disturbances = [norms(run.values[name], yard.values[name]) for run in noisy]
        roundoff = FLOAT32_ROUNDOFF if name == "lse" else torch.finfo(dtype).eps / 2
        size = norms(expected, torch.zeros_like(expected))
        count = max(1, expected.numel())
        share = (min(0.5, 8.0 / math.sqrt(count)), min(1.0, 64.0 / math.sqrt(count)))
        disturbed = [max(errors) for errors in zip(*disturbances, strict=True)]
        base = [FACTOR * error for error in yardstick[name]]
        chance = [share[i] * roundoff * size[i] for i in range(2)]
        # Independent errors add by squares in the norm; at one element they may just add.
        limit[name] = (
            math.hypot(base[0], disturbed[0]) + chance[0],
            base[1] + disturbed[1] + chance[1],
        )
    return Budget(truth, yardstick, limit, dtype)


def norms(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """Frobenius norm and maximum of the difference, over elements where both are finite."""
    if expected.numel() == 0:
        return 0.0, 0.0
    both = torch.isfinite(found) & torch.isfinite(expected)
    difference = torch.where(both, found.to(torch.float64) - expected, 0.0)
    return float(torch.linalg.vector_norm(difference)), float(difference.abs().max())
