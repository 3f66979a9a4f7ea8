"""Attention as the Variant defines it, dense and in float64: the truth every kernel is held to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fagen.spec.names import DIMENSIONS, INDEX_OF_DIMENSION
from fagen.spec.variant import Variant
from fagen.verify.evaluate import Hook, evaluate, widen

#: Scores held at once, in elements; several float64 tensors of this size are alive together.
CHUNK_ELEMENTS = 2**25


@dataclass(frozen=True)
class Place:
    """Where one of several packed sequences lies: which it is, and its first rows."""

    sequence: int
    sequences: int
    q_first: int
    kv_first: int
    total_q: int
    total_kv: int


@dataclass(frozen=True)
class Setting:
    """One call of a variant: its sizes, offsets, parameters and tables, all bound.

    `scale` multiplies q.k; `bindings` holds parameters and the free names of tensor shapes;
    `place` is that of a packed sequence, which is then the only one held.
    """

    variant: Variant
    sizes: Mapping[str, int]
    bindings: Mapping[str, int | float | bool]
    tensors: Mapping[str, torch.Tensor]
    scale: float
    q_offset: int
    kv_offset: int
    device: torch.device
    place: Place | None = None

    @property
    def held(self) -> int:
        """Sequences that q, k and v hold."""
        return self.sizes["batch"] if self.place is None else 1


@dataclass(frozen=True)
class Block:
    """A box of (batch, head, row) whose scores against all keys are computed together."""

    batch: slice
    heads: slice
    rows: slice


def bind(
    variant: Variant,
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    parameters: Mapping[str, int | float | bool] | None = None,
    tensors: Mapping[str, torch.Tensor] | None = None,
    scale: float | None = None,
    q_offset: int | None = None,
    kv_offset: int = 0,
    place: Place | None = None,
    totals: tuple[int, int] | None = None,
) -> Setting:
    """The call's setting; missing parameters and tensors take their defaults.

    q is [batch, heads, q_len, head_dim], k is [batch, kv_heads, kv_len, head_dim]; of a packed
    sequence at `place` they are a batch of one, and tables end where it does; `totals` are total_q
    and total_kv where they are not q_len and kv_len. Raises ValueError for a missing or unknown
    table and for a table whose shape does not fit.
    """
    sizes = {
        "batch": q.shape[0],
        "heads": q.shape[1],
        "kv_heads": k.shape[1],
        "q_len": q.shape[2],
        "kv_len": k.shape[2],
        "head_dim": q.shape[3],
        "total_q": q.shape[2],
        "total_kv": k.shape[2],
    }
    if place is not None:
        sizes["batch"], totals = place.sequences, (place.total_q, place.total_kv)
    if totals is not None:
        sizes["total_q"], sizes["total_kv"] = totals
    bindings: dict[str, int | float | bool] = {p.name: p.default for p in variant.parameters}
    _refuse_unknown("parameter", parameters or {}, bindings)
    bindings.update(parameters or {})
    given = dict(tensors or {})
    _refuse_unknown("tensor", given, [t.name for t in variant.tensors])
    for tensor in variant.tensors:
        if tensor.name in given:
            _bind_shape(tensor.name, tensor.shape, given[tensor.name], sizes, bindings)
    if scale is None:
        scale = float(evaluate(variant.scale, {**sizes, **bindings}, {}))
    if q_offset is None:
        q_offset = sizes["kv_len"] - sizes["q_len"] if variant.position == "end" else 0
    setting = Setting(
        variant, sizes, bindings, given, scale, q_offset, kv_offset, q.device, place
    )  # fmt: skip
    return replace(setting, tensors={**given, **_defaults(setting)})


def attention_reference(
    variant: Variant,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    parameters: Mapping[str, int | float | bool] | None = None,
    tensors: Mapping[str, torch.Tensor] | None = None,
    scale: float | None = None,
    q_offset: int | None = None,
    kv_offset: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """out [batch, heads, q_len, head_dim_v] and natural lse [batch, heads, q_len], in float64.

    Differentiable by autograd in q, k, v and float tables. A row without keys gives out 0, lse
    -inf (or the sink) and zero gradients. Computed box by box, so that memory stays bounded.
    """
    setting = bind(
        variant, q, k, parameters=parameters, tensors=tensors, scale=scale,
        q_offset=q_offset, kv_offset=kv_offset,
    )  # fmt: skip
    q, k, v = (widen(x) for x in (q, k, v))
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    lse = q.new_full(q.shape[:3], -math.inf)
    for block in blocks(setting):
        part_q, part_k, part_v = select(setting, block, q, k, v)
        scores, _ = masked_scores(setting, block, part_q @ part_k.mT * setting.scale)
        probabilities, part_lse = softmax(scores, sink_of(setting, block))
        box = (block.batch, block.heads, block.rows)
        out[box] = probabilities @ part_v
        lse[box] = part_lse
    return out, lse


def blocks(setting: Setting) -> Iterator[Block]:
    """Boxes covering every (batch, head, row), each at most about CHUNK_ELEMENTS scores.

    Without any row there is one empty box, so that autograd still sees a computation.
    """
    batch, heads, rows = setting.held, setting.sizes["heads"], setting.sizes["q_len"]
    width = max(1, setting.sizes["kv_len"])
    row_step = max(1, min(rows, CHUNK_ELEMENTS // width))
    head_step = max(1, min(heads, CHUNK_ELEMENTS // (width * row_step)))
    batch_step = max(1, min(batch, CHUNK_ELEMENTS // (width * row_step * head_step)))
    for b in range(0, max(1, batch), batch_step):
        for h in range(0, max(1, heads), head_step):
            for r in range(0, max(1, rows), row_step):
                yield Block(
                    slice(b, min(batch, b + batch_step)),
                    slice(h, min(heads, h + head_step)),
                    slice(r, min(rows, r + row_step)),
                )


def kv_heads_of(setting: Setting, block: Block) -> torch.Tensor:
    """The key/value head of each query head of the block, int64 [heads of the block]."""
    group = max(1, setting.sizes["heads"] // max(1, setting.sizes["kv_heads"]))
    return torch.arange(block.heads.start, block.heads.stop, device=setting.device) // group


def select(setting: Setting, block: Block, q, k, v) -> tuple[torch.Tensor, ...]:
    """The block's rows of q, and k and v repeated for each of its query heads."""
    kv_head = kv_heads_of(setting, block)
    return (
        q[block.batch, block.heads, block.rows],
        k[block.batch].index_select(1, kv_head),
        v[block.batch].index_select(1, kv_head),
    )


def masked_scores(
    setting: Setting, block: Block, product: torch.Tensor, *, hook: Hook | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with -inf where masked, and the mask, both of the shape of `product` (scaled q.k)."""
    names = _index_names(setting, block)
    mask = evaluate(setting.variant.mask, names, setting.tensors).expand(product.shape)
    score = scores_of(setting, block, product, hook=hook).expand(product.shape)
    return torch.where(mask, score, -math.inf), mask


def scores_of(
    setting: Setting, block: Block, product: torch.Tensor, *, hook: Hook | None = None
) -> torch.Tensor:
    """Scores before the mask, in a shape that broadcasts to the block's."""
    names = {**_index_names(setting, block), "score": product}
    return evaluate(setting.variant.score, names, setting.tensors, hook=hook)


def sink_of(setting: Setting, block: Block, *, hook: Hook | None = None) -> torch.Tensor | None:
    """The sink logit of each row of the block, [batch, heads, rows, 1]; None without a sink."""
    if setting.variant.sink is None:
        return None
    names = _index_names(setting, block)
    sink = evaluate(setting.variant.sink, names, setting.tensors, hook=hook)
    return sink.expand(
        block.batch.stop - block.batch.start,
        block.heads.stop - block.heads.start,
        block.rows.stop - block.rows.start,
        1,
    )


def softmax(scores: torch.Tensor, sink: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities and natural lse of scores [..., rows, keys]; empty rows give 0 and -inf."""
    top = (
        scores.detach().amax(-1, keepdim=True)
        if scores.shape[-1]
        else scores.new_full((*scores.shape[:-1], 1), -math.inf)
    )
    if sink is not None:
        top = torch.maximum(top, sink.detach())
    shift = torch.where(top == -math.inf, 0.0, top)
    weights = torch.exp(scores - shift)
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - shift)
    empty = total == 0
    safe = torch.where(empty, 1.0, total)
    lse = torch.where(empty, -math.inf, torch.log(safe) + shift)
    return weights / safe, lse.squeeze(-1)


def _index_names(setting: Setting, block: Block) -> dict[str, torch.Tensor | int | float | bool]:
    def run(start: int, stop: int, axis: int) -> torch.Tensor:
        shape = [1, 1, 1, 1]
        shape[axis] = stop - start
        return torch.arange(start, stop, device=setting.device).view(shape)

    head = run(block.heads.start, block.heads.stop, 1)
    row = run(block.rows.start, block.rows.stop, 2)
    column = run(0, setting.sizes["kv_len"], 3)
    sequence = run(block.batch.start, block.batch.stop, 0)
    place = setting.place or Place(0, 1, 0, 0, 0, 0)
    return {
        **setting.sizes,
        **setting.bindings,
        "b": sequence + place.sequence,
        "h": head,
        "kv_h": kv_heads_of(setting, block).view(1, -1, 1, 1),
        "q_row": row,
        "q_idx": row + setting.q_offset,
        "q_token": row + place.q_first,
        "kv_idx": column + setting.kv_offset,
        "kv_token": column + place.kv_first,
    }


def _bind_shape(name, shape, table, sizes, bindings) -> None:
    if table.dim() != len(shape):
        raise ValueError(f"tensor `{name}` has {table.dim()} dimensions, not {len(shape)}")
    for axis, (dimension, found) in enumerate(zip(shape, table.shape, strict=True)):
        if isinstance(dimension, str) and dimension not in sizes and dimension not in bindings:
            bindings[dimension] = found
        expected = dimension
        if isinstance(dimension, str):
            expected = sizes.get(dimension, bindings.get(dimension))
        if expected != found:
            raise ValueError(f"axis {axis} of tensor `{name}` has {found} elements, not {expected}")


def _defaults(setting: Setting) -> dict[str, torch.Tensor]:
    """Tables the call left out, from their default expressions."""
    found = {}
    for tensor in setting.variant.tensors:
        if tensor.name in setting.tensors:
            continue
        if tensor.default is None:
            raise ValueError(f"tensor `{tensor.name}` has no default and was not passed")
        shape = tuple(
            d if isinstance(d, int) else setting.sizes[d] if d in DIMENSIONS
            else int(setting.bindings[d])
            for d in tensor.shape
        )  # fmt: skip
        names: dict[str, torch.Tensor | int | float | bool] = {
            **setting.sizes, **setting.bindings
        }  # fmt: skip
        for axis, dimension in enumerate(tensor.shape):
            if dimension in INDEX_OF_DIMENSION:
                run = torch.arange(shape[axis], device=setting.device)
                view = [1] * len(shape)
                view[axis] = shape[axis]
                names[INDEX_OF_DIMENSION[str(dimension)]] = run.view(view)
        table = evaluate(tensor.default, names, {}).expand(shape)
        found[tensor.name] = table.to(setting.device, getattr(torch, tensor.dtype))
    return found


def _refuse_unknown(kind: str, given, known) -> None:
    for key in given:
        if key not in known:
            raise ValueError(f"unknown {kind} `{key}`")
