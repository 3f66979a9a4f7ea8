"""More variants of the speed table: masks and biases that only tables, division or bits can say."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fagen.bench.problem import Case, Problem, Sizes

DILATION = 4
MAP_BLOCK = 128
MAP_DENSITY = 0.3
BUCKETS = 32
MAX_DISTANCE = 128


def _chunked_causal(problem: Problem, device: str, sizes: Sizes) -> Case:
    chunk = sizes.window

    def same_chunk(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (q // chunk == kv // chunk) & (q >= kv)

    return Case("chunked_causal", problem, {"chunk": chunk}, mask_mod=same_chunk)


def _neighborhood_2d(problem: Problem, device: str, sizes: Sizes) -> Case:
    width = math.isqrt(problem.length)
    height = -(-problem.length // width)
    reach = sizes.neighbors // 2

    def near(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        rows = (q // width).clamp(reach, height - 1 - reach)
        columns = (q % width).clamp(reach, width - 1 - reach)
        return ((rows - kv // width).abs() <= reach) & ((columns - kv % width).abs() <= reach)

    parameters = {"width": width, "height": height, "kernel": sizes.neighbors}
    return Case("neighborhood_2d", problem, parameters, mask_mod=near)


def _block_map(problem: Problem, device: str, sizes: Sizes) -> Case:
    """One random map for all sequences and heads, so that FlexAttention needs one block mask."""
    count = -(-problem.length // MAP_BLOCK)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(count, count, generator=generator) < MAP_DENSITY
    live = (drawn | torch.eye(count, dtype=torch.bool)).to(device)

    def in_map(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return live[q // MAP_BLOCK, kv // MAP_BLOCK]

    table = live.expand(problem.batch, problem.heads, -1, -1).contiguous()
    return Case("block_map", problem, {"block": MAP_BLOCK}, {"live": table}, mask_mod=in_map)


def _tree_causal(problem: Problem, device: str, sizes: Sizes) -> Case:
    """The last quarter of the keys is a random tree; row r sees the ancestors of node r modulo."""
    nodes = max(1, problem.length // 4)
    prefix = problem.length - nodes
    generator = torch.Generator().manual_seed(0)
    above = torch.eye(nodes, dtype=torch.bool)
    parents = (torch.rand(nodes, generator=generator) * torch.arange(nodes)).long()
    for node in range(1, nodes):
        above[node] |= above[parents[node]]
    ancestor = torch.zeros(problem.length, problem.length, dtype=torch.bool)
    ancestor[:, :nodes] = above[torch.arange(problem.length) % nodes]
    ancestor = ancestor.to(device)

    def seen(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (kv < prefix) | ancestor[q, (kv - prefix).clamp(min=0)]

    lengths = torch.full((problem.batch,), prefix, dtype=torch.int32, device=device)
    tables = {"prefix": lengths, "ancestor": ancestor.expand(problem.batch, -1, -1).contiguous()}
    return Case("tree_causal", problem, tensors=tables, mask_mod=seen)


def _dilated_window(problem: Problem, device: str, sizes: Sizes) -> Case:
    reach = sizes.window // 2

    def in_reach(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        away = (q - kv).abs()
        return (away <= reach) & (away % DILATION == 0)

    parameters = {"reach": reach, "dilation": DILATION}
    return Case("dilated_window", problem, parameters, mask_mod=in_reach)


def _full_bias(problem: Problem, device: str, sizes: Sizes) -> Case:
    generator = torch.Generator(device).manual_seed(0)
    shape = (problem.batch, problem.heads, problem.length, problem.length)
    bias = torch.empty(shape, dtype=torch.bfloat16, device=device)
    for part in bias:
        part.normal_(generator=generator)

    def add(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return score + bias[b, h, q, kv]

    return Case("full_bias", problem, tensors={"bias": bias}, score_mod=add)


def _t5_bias(problem: Problem, device: str, sizes: Sizes) -> Case:
    """FlexAttention reads a table by distance, made beforehand as in transformers; ours the
    buckets."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(problem.heads, BUCKETS, generator=generator)
    distance = torch.arange(-problem.length, problem.length)
    half, exact = BUCKETS // 2, BUCKETS // 4
    away = distance.abs()
    octaves = torch.log2(away.clamp(min=1) / exact) / math.log2(MAX_DISTANCE / exact)
    far = (exact + (octaves * (half - exact) + 1e-4).long()).clamp(max=half - 1)
    bucket = torch.where(away < exact, away, far) + torch.where(distance < 0, half, 0)
    by_distance = table[:, bucket].to(device)
    length = problem.length

    def add(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return score + by_distance[h, q - kv + length]

    return Case(
        "t5_bias", problem, {"max_distance": MAX_DISTANCE}, {"bias": table.to(device)},
        score_mod=add, scale=problem.head_dim**-0.5,
    )  # fmt: skip


def _head_and_row_bias(problem: Problem, device: str, sizes: Sizes) -> Case:
    generator = torch.Generator().manual_seed(0)
    head = torch.randn(problem.heads, generator=generator).to(device)
    row = torch.randn(problem.length, generator=generator).to(device)

    def add(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return score + head[h] + row[q]

    return Case("head_and_row_bias", problem, tensors={"head": head, "row": row}, score_mod=add)


BUILDERS: dict[str, Callable[[Problem, str, Sizes], Case]] = {
    "chunked_causal": _chunked_causal,
    "neighborhood_2d": _neighborhood_2d,
    "block_map": _block_map,
    "tree_causal": _tree_causal,
    "dilated_window": _dilated_window,
    "full_bias": _full_bias,
    "t5_bias": _t5_bias,
    "head_and_row_bias": _head_and_row_bias,
}
