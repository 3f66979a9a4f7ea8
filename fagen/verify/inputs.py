"""Draws the tensors of a case: values in float64, and the same rounded and laid out as the case
says, surrounded by NaN where it says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fagen.spec.variant import Variant
from fagen.verify.cases import Case
from fagen.verify.reference import Setting, bind
from fagen.verify.tables import parameter_values, tables_on

PADDING = 5

#: q, k, v, grad_out, grad_lse.
Five = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """`exact` are q, k, v, grad_out, grad_lse in float64; `given` what the module receives."""

    setting: Setting
    exact: Five
    given: Five
    keywords: Mapping[str, object]


def draw(variant: Variant, case: Case, device: str, seed: int) -> Inputs:
    """Fresh inputs of the case; the same seed draws the same numbers on every device."""
    generator = torch.Generator().manual_seed(seed)
    shape_q = (case.batch, case.heads, case.q_len, case.head_dim)
    shape_k = (case.batch, case.kv_heads, case.kv_len, case.head_dim)
    shape_v = (*shape_k[:3], case.head_dim_v)
    shape_out = (*shape_q[:3], case.head_dim_v)
    q, k, v, grad_out = (
        torch.randn(s, generator=generator, dtype=torch.float64)
        for s in (shape_q, shape_k, shape_v, shape_out)
    )
    grad_lse = torch.randn(shape_q[:3], generator=generator, dtype=torch.float64)
    if case.layout == "k_expanded":
        k = k[:, :1].expand(shape_k)
    if case.loss == "sum":
        grad_out = torch.ones((), dtype=torch.float64).expand(shape_out)
    if case.loss == "lse":
        grad_out = torch.zeros(shape_out, dtype=torch.float64)
    if case.loss in ("out", "sum"):
        grad_lse = torch.zeros_like(grad_lse)
    parameters = parameter_values(variant, case)
    tables = tables_on(device, variant, case, parameters, generator)
    q_offset, kv_offset = case.offsets
    offsets = {} if q_offset is None else {"q_offset": q_offset}
    keywords = {**parameters, **tables, **offsets}
    if kv_offset:
        keywords["kv_offset"] = kv_offset
    if case.scale is not None:
        keywords["scale"] = case.scale
    setting = bind(
        variant, q.to(device), k.to(device), parameters=parameters, tensors=tables,
        scale=case.scale, q_offset=q_offset, kv_offset=kv_offset,
    )  # fmt: skip
    if case.magnitude is not None and q.numel() and k.numel():
        # The largest product of the whole problem is brought to the wanted size.
        group = case.heads // case.kv_heads
        top = (q @ k.repeat_interleave(group, 1).mT).abs().max() * abs(setting.scale)
        q = q * (case.magnitude / top)
    exact = (q.to(device), k.to(device), v.to(device), grad_out.to(device), grad_lse.to(device))
    return Inputs(setting, exact, laid_out(exact, case), keywords)


def gradients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
    """dq, dk and dv as a backward left them; zeros where it left none."""
    return {
        name: torch.zeros_like(x) if x.grad is None else x.grad
        for name, x in (("dq", q), ("dk", k), ("dv", v))
    }


def laid_out(exact: Five, case: Case) -> Five:
    dtype = getattr(torch, case.dtype)
    q, k, v, grad_out = (x.to(dtype) for x in exact[:4])
    layout = case.layout
    if layout == "contiguous":
        q, k, v = (x.contiguous() for x in (q, k, v))
    elif layout == "bshd":
        q, k, v, grad_out = (_transposed(x) for x in (q, k, v, grad_out))
    elif layout == "nan_padded":
        q, k, v, grad_out = (_surrounded(x, 16 // x.element_size()) for x in (q, k, v, grad_out))
    elif layout == "odd_stride":
        q, k, v, grad_out = (_surrounded(x, 3) for x in (q, k, v, grad_out))
    elif layout == "k_sliced":
        whole = k.new_full((*k.shape[:2], k.shape[2] + 128, k.shape[3]), math.nan)
        whole[:, :, : k.shape[2]] = k
        k = whole[:, :, :-128]
    elif layout == "v_rows":
        whole = v.new_full((*v.shape[:3], 2, v.shape[3]), math.nan)
        whole[..., 0, :] = v
        v = whole[..., 0, :]
    if case.loss == "sum":
        grad_out = torch.ones((), dtype=dtype, device=q.device).expand(grad_out.shape)
    if layout == "k_expanded":
        k = k[:, :1].contiguous().expand(exact[1].shape)
    return q, k, v, grad_out, exact[4].to(torch.float32)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    """The same values, stored [batch, length, heads, width]."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _surrounded(x: torch.Tensor, columns: int) -> torch.Tensor:
    """The same values inside a larger tensor of NaN, with rows, heads and columns around them."""
    batch, heads, length, width = x.shape
    whole = x.new_full((batch + 1, heads + 1, length + 2 * PADDING, width + columns), math.nan)
    inner = whole[:batch, :heads, PADDING : PADDING + length, :width]
    inner.copy_(x)
    return inner
