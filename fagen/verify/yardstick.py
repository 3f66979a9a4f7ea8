"""How wrong a kernel may be: the error budget of the accuracy section of the design.

The truth is dense float64 attention on the inputs before they were rounded. The yardstick is the
same computation in which only the inputs, P and dS are rounded to the dtype: the least that any
kernel which feeds those to tensor cores must lose. A kernel may err 1.25 times as much, in the
Frobenius norm and in the maximum.

What a kernel does beyond that is allowed for, in ways known before a kernel is seen: the 1.25 apply
to the yardstick as a kernel could meet it (`Rounding` with a generator), which also has

- *float32 arithmetic.* The plain yardstick sums and evaluates exactly; a kernel accumulates in
  float32. With float16 that is invisible, with float32 inputs it is the whole error, and where
  terms cancel (dP - delta of a row with one key is exactly 0) it is the only error and the plain
  yardstick's is zero. So every intermediate is disturbed by up to `NOISE_ULPS` float32 roundings
  of the *sum of magnitudes* it came from: a forward error bound, made random. It scales with the
  scores and with the cancellation, so a large score or a value near zero needs no tolerance picked
  by hand. A score counts with the largest bias (its value where q.k is 0) of the tiles around it,
  because a kernel may take a bias relative to the origin of its tile and put the rest into lse.
- *O as stored*, for that is all a backward pass can take delta from.
- *luck.* In a small problem one row can hold most of the error, and whether its roundings cancel
  is a single throw. The forward's P is rounded under a random factor for each row, and small
  problems, as those most of whose rows are alike, take the largest of `SMALL_PROBLEM_DRAWS` runs.
- *storage.* A result is stored in the dtype. In the maximum that is half an ulp of the largest
  value, `unit roundoff * maximum`, whatever the size of the tensor; in the norm it averages out,
  and `unit roundoff * norm` is allowed a share that falls as one over the square root of the
  number of elements that differ. In small problems, and where most elements are equal, the runs
  above store their results too.

Where the truth is exactly zero by definition (rows without keys, keys no query may see) no
tolerance applies: `fagen.verify.judge` demands zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fagen.verify.cases import Case
from fagen.verify.dense import FLOAT32_ROUNDOFF, Dense, Rounding, dense
from fagen.verify.reference import Setting

QUANTITIES = ("out", "lse", "dq", "dk", "dv")
FACTOR = 1.25
SMALL_PROBLEM = 2**16
SMALL_PROBLEM_DRAWS = 12

#: Rows or keys of the largest tile that a module chooses by itself.
LARGEST_TILE = 128


def tile_of(case: Case) -> int:
    """The larger side of the largest tile that a case uses."""
    if case.tiles is None:
        return LARGEST_TILE
    return max(max(m, n) for _, m, n in case.tiles)


@dataclass(frozen=True)
class Budget:
    """The truth of one problem, with the yardstick's error and the limit of each quantity."""

    truth: Dense
    yardstick: Mapping[str, tuple[float, float]]
    limit: Mapping[str, tuple[float, float]]
    dtype: torch.dtype


def budget(
    setting: Setting,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor,
    dtype: torch.dtype,
    seed: int,
    tile: int = LARGEST_TILE,
) -> Budget:
    """The budget for kernels given these float64 inputs rounded to `dtype`.

    `yardstick` and `limit` map a quantity to its (Frobenius, maximum) error, in the quantity's own
    units. lse is stored in float32 whatever the dtype. `tile` is the larger side of the largest
    tile in use.
    """
    inputs = (setting, q, k, v, grad_out, grad_lse)
    truth = dense(*inputs)
    plain = dense(*inputs, Rounding(dtype))
    generator = torch.Generator(q.device).manual_seed(seed)
    pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    # Rows with one and the same lse are disturbed alike: nothing averages out between them.
    alike = 2 * torch.unique(truth.values["lse"]).numel() <= truth.values["lse"].numel()
    draws = SMALL_PROBLEM_DRAWS if pairs <= SMALL_PROBLEM or alike else 1
    runs = [dense(*inputs, Rounding(dtype, generator, tile)) for _ in range(draws)]
    yardstick, limit = {}, {}
    for name in QUANTITIES:
        expected = truth.values[name]
        yardstick[name] = norms(plain.values[name], expected)
        # Equal values, as in the gradient of a sum, are rounded alike: nothing averages out there.
        distinct = torch.unique(expected.to(torch.float32)).numel()
        kind = torch.float32 if name == "lse" else dtype
        averages_out = draws == 1 and 2 * distinct > expected.numel()
        kind = torch.float64 if averages_out else kind
        met = [yardstick[name], *(norms(run.values[name].to(kind), expected) for run in runs)]
        largest = [max(errors) for errors in zip(*met, strict=True)]
        roundoff = FLOAT32_ROUNDOFF if name == "lse" else torch.finfo(dtype).eps / 2
        size = norms(expected, torch.zeros_like(expected))
        count = max(1, distinct)
        share = (min(0.5, 8.0 / math.sqrt(count)), 1.0)
        limits = [FACTOR * largest[i] + share[i] * roundoff * size[i] for i in range(2)]
        limit[name] = (limits[0], limits[1])
    return Budget(truth, yardstick, limit, dtype)


def norms(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """Frobenius norm and maximum of the difference, over elements where both are finite."""
    if expected.numel() == 0:
        return 0.0, 0.0
    both = torch.isfinite(found) & torch.isfinite(expected)
    difference = torch.where(both, found.to(torch.float64) - expected, 0.0)
    return float(torch.linalg.vector_norm(difference)), float(difference.abs().max())
