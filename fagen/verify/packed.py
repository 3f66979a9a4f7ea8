"""A case of packed sequences: one call of the module, each sequence held to the truth alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from fagen.spec.variant import Variant
from fagen.verify.cases import Case
from fagen.verify.inputs import Five, gradients, laid_out
from fagen.verify.judge import judge
from fagen.verify.poison import poisoned
from fagen.verify.reference import Place, Setting, bind
from fagen.verify.report import Measure
from fagen.verify.tables import parameter_values, tables_on
from fagen.verify.yardstick import budget, tile_of


@dataclass(frozen=True)
class Sequence:
    """A packed sequence alone: `exact` are its q, k, v, grad_out, grad_lse as a batch of one."""

    setting: Setting
    exact: Five
    rows: slice
    columns: slice


@dataclass(frozen=True)
class PackedInputs:
    """`given` are q, k, v, grad_out [rows, heads, width] and grad_lse [rows, heads]."""

    sequences: tuple[Sequence, ...]
    given: Five
    ends: tuple[torch.Tensor, torch.Tensor]
    keywords: Mapping[str, object]


def packed_attention(
    variant: Variant,
    module: ModuleType,
    case: Case,
    device: str,
    seed: int,
    configuration: Mapping[str, Any],
) -> tuple[tuple[Measure, ...], str]:
    """What `judge` says of every sequence; the message names the first that is wrong."""
    inputs = draw_packed(variant, case, device, seed)
    with poisoned():
        found = _call(module, case, inputs, configuration)
    tile = tile_of(case)
    dtype = getattr(torch, case.dtype)
    measures: list[Measure] = []
    for i, sequence in enumerate(inputs.sequences):
        allowed = budget(sequence.setting, *sequence.exact, dtype=dtype, seed=seed, tile=tile)
        own, message = judge(_part(found, sequence), allowed)
        measures += own
        if message:
            return tuple(measures), f"sequence {i}: {message}"
    return tuple(measures), ""


def draw_packed(variant: Variant, case: Case, device: str, seed: int) -> PackedInputs:
    """Fresh inputs of a case with `lengths`; the same seed draws the same numbers everywhere."""
    assert case.lengths is not None
    generator = torch.Generator().manual_seed(seed)
    total_q, total_kv = (sum(sizes) for sizes in zip(*case.lengths, strict=True))

    def drawn(heads: int, length: int, *width: int) -> torch.Tensor:
        shape = (1, heads, length, *width)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(device)

    whole = (
        drawn(case.heads, total_q, case.head_dim),
        drawn(case.kv_heads, total_kv, case.head_dim),
        drawn(case.kv_heads, total_kv, case.head_dim_v),
        drawn(case.heads, total_q, case.head_dim_v),
        drawn(case.heads, total_q),
    )
    parameters = parameter_values(variant, case)
    tables = tables_on(device, variant, case, parameters, generator)
    sequences = tuple(_sequences(variant, case, whole, parameters, tables))
    q, k, v, grad_out, grad_lse = laid_out(whole, case)
    rows_first = [x[0].transpose(0, 1) for x in (q, k, v, grad_out)]
    given = (*rows_first, grad_lse[0].mT)
    ends = tuple(
        torch.tensor([0, *itertools.accumulate(sizes)], dtype=torch.int32, device=device)
        for sizes in zip(*case.lengths, strict=True)
    )
    scale = {} if case.scale is None else {"scale": case.scale}
    return PackedInputs(sequences, given, ends, {**parameters, **tables, **scale})


def _sequences(
    variant: Variant,
    case: Case,
    whole: Five,
    parameters: Mapping[str, int | float | bool],
    tables: Mapping[str, torch.Tensor],
) -> Iterator[Sequence]:
    assert case.lengths is not None
    total_q, total_kv = whole[0].shape[2], whole[1].shape[2]
    # Defaults are made once, for the longest sequence.
    tables = bind(
        variant, whole[0].new_empty(case.batch, case.heads, case.q_len, case.head_dim),
        whole[1].new_empty(case.batch, case.kv_heads, case.kv_len, case.head_dim),
        parameters=parameters, tensors=tables, totals=(total_q, total_kv),
    ).tensors  # fmt: skip
    q_first = kv_first = 0
    for i, (q_len, kv_len) in enumerate(case.lengths):
        rows, columns = slice(q_first, q_first + q_len), slice(kv_first, kv_first + kv_len)
        q, k, v, grad_out, grad_lse = whole
        exact = (
            q[:, :, rows], k[:, :, columns], v[:, :, columns],
            grad_out[:, :, rows], grad_lse[:, :, rows],
        )  # fmt: skip
        place = Place(i, len(case.lengths), q_first, kv_first, total_q, total_kv)
        own = {t.name: _cut(tables[t.name], t.shape, q_len, kv_len) for t in variant.tensors}
        setting = bind(
            variant, exact[0], exact[1], parameters=parameters, tensors=own, place=place,
            scale=case.scale,
        )  # fmt: skip
        yield Sequence(setting, exact, rows, columns)
        q_first, kv_first = rows.stop, columns.stop


def _cut(
    table: torch.Tensor, shape: tuple[int | str, ...], q_len: int, kv_len: int
) -> torch.Tensor:
    """A table as a sequence of these lengths sees it."""
    own = {"q_len": slice(q_len), "kv_len": slice(kv_len)}
    return table[tuple(own.get(str(size), slice(None)) for size in shape)]


def _call(
    module: ModuleType, case: Case, inputs: PackedInputs, configuration: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    q, k, v, grad_out, grad_lse = inputs.given
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out, lse = module.attention_varlen(
        q, k, v, *inputs.ends, case.q_len, case.kv_len,
        return_lse=True, **inputs.keywords, **configuration,
    )  # fmt: skip
    torch.autograd.backward([out, lse], [grad_out, grad_lse])
    return {"out": out.detach(), "lse": lse.detach(), **gradients(q, k, v)}


def _part(found: Mapping[str, torch.Tensor], sequence: Sequence) -> dict[str, torch.Tensor]:
    """A sequence's share of the results, as a batch of one."""
    own = {}
    for name, value in found.items():
        span = sequence.columns if name in ("dk", "dv") else sequence.rows
        own[name] = value[span].transpose(0, 1)[None]
    return own
