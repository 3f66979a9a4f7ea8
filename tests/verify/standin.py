"""A module with the public API of a generated one, in dense PyTorch, tile by tile.

It computes a windowed ALiBi with an optional soft cap the way a kernel would: float32
accumulation, P and dS rounded to the dtype, outputs written tile by tile into `torch.empty`. Tests
break it one line at a time; `verify_module` must notice each.
"""

import math
from typing import NamedTuple

import torch


class Config(NamedTuple):
    BLOCK_M: int
    BLOCK_N: int
    num_warps: int = 4
    num_stages: int = 2


ROLES = ("forward", "dkdv", "dq", "prep")
DEFAULT = {role: Config(64, 32) for role in ROLES}


def attention(
    q, k, v, *, window=11, cap=50.0, slopes=None, scale=None, return_lse=False,
    q_offset=None, kv_offset=0, deterministic=None, partition=None, config=None,
):  # fmt: skip
    if q_offset is None:
        q_offset = k.shape[2] - q.shape[2]
    if scale is None:
        scale = q.shape[3] ** -0.5
    if slopes is None:
        h = torch.arange(q.shape[1], device=q.device)
        slopes = torch.exp2(-8.0 * (h + 1) / q.shape[1])
    config = {**DEFAULT, **(config or {})}
    out, lse = _Attention.apply(
        q, k, v, slopes.float(), window, cap, scale, q_offset, kv_offset, config
    )
    return (out, lse) if return_lse else out


def attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *, return_lse=False, **rest
):  # fmt: skip
    spans = zip(
        cu_seqlens_q.tolist()[:-1], cu_seqlens_q.tolist()[1:],
        cu_seqlens_k.tolist()[:-1], cu_seqlens_k.tolist()[1:],
        strict=True,
    )  # fmt: skip
    outs, lses = [], []
    for q_first, q_end, k_first, k_end in spans:
        own = (q[q_first:q_end], k[k_first:k_end], v[k_first:k_end])
        batch = (x.transpose(0, 1)[None] for x in own)
        out, lse = attention(*batch, return_lse=True, **rest)
        outs.append(out[0].transpose(0, 1))
        lses.append(lse[0].mT)
    out, lse = torch.cat(outs), torch.cat(lses)
    return (out, lse) if return_lse else out


def tile_scores(q, k, slopes, window, cap, scale, q_start, kv_start):
    q_idx = q_start + torch.arange(q.shape[2], device=q.device)[:, None]
    kv_idx = kv_start + torch.arange(k.shape[2], device=q.device)[None, :]
    distance = q_idx - kv_idx
    mask = (distance >= 0) & (distance < window)
    tanh = torch.tanh(q @ k.mT * scale / cap)
    score = cap * tanh - slopes[:, None, None] * distance
    return torch.where(mask, score, -math.inf), mask, 1 - tanh * tanh


def spread(x, heads):
    return x.float().repeat_interleave(heads // x.shape[1], 1)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, slopes, window, cap, scale, q_offset, kv_offset, config):
        batch, heads, q_len, _ = q.shape
        block_m = config["forward"].BLOCK_M
        out = torch.empty(batch, heads, q_len, v.shape[3], dtype=q.dtype, device=q.device)
        lse = torch.empty(batch, heads, q_len, dtype=torch.float32, device=q.device)
        keys, values = spread(k, heads), spread(v, heads)
        for start in range(0, q_len, block_m):
            rows = slice(start, min(q_len, start + block_m))
            scores, _, _ = tile_scores(
                q[:, :, rows].float(), keys, slopes, window, cap, scale, start + q_offset, kv_offset
            )
            top = scores.amax(-1) if k.shape[2] else scores.new_full(scores.shape[:3], -math.inf)
            top = torch.where(top == -math.inf, 0.0, top)
            p = torch.exp(scores - top[..., None])
            total = p.sum(-1)
            safe = torch.where(total == 0, 1.0, total)
            out[:, :, rows] = (p.to(q.dtype).float() @ values / safe[..., None]).to(q.dtype)
            lse[:, :, rows] = top + torch.log(total)
        ctx.save_for_backward(q, k, v, slopes, out, lse)
        ctx.numbers = (window, cap, scale, q_offset, kv_offset, config)
        return out, lse

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, slopes, out, lse = ctx.saved_tensors
        window, cap, scale, q_offset, kv_offset, config = ctx.numbers
        heads = q.shape[1]
        group = heads // k.shape[1]
        keys, values = spread(k, heads), spread(v, heads)
        queries, upstream = q.float(), grad_out.float()
        delta = (upstream * out.float()).sum(-1) - grad_lse
        dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        dk = torch.empty(k.shape, dtype=k.dtype, device=q.device)
        dv = torch.empty(v.shape, dtype=v.dtype, device=q.device)
        block_n = config["dkdv"].BLOCK_N

        def recompute(columns, start):
            scores, mask, slope = tile_scores(
                queries, keys[:, :, columns], slopes, window, cap, scale, q_offset,
                kv_offset + start,
            )  # fmt: skip
            finite = torch.where(lse == -math.inf, 0.0, lse)
            p = torch.exp(scores - finite[..., None])
            dp = upstream @ values[:, :, columns].mT
            ds = torch.where(mask, p * slope * (dp - delta[..., None]), 0.0)
            return p.to(q.dtype).float(), ds.to(q.dtype).float()

        for start in range(0, k.shape[2], block_n):
            columns = slice(start, min(k.shape[2], start + block_n))
            p, ds = recompute(columns, start)
            part_k = scale * (ds.mT @ queries)
            part_v = p.mT @ upstream
            dk[:, :, columns] = part_k.unflatten(1, (-1, group)).sum(2).to(q.dtype)
            dv[:, :, columns] = part_v.unflatten(1, (-1, group)).sum(2).to(q.dtype)
        _, ds = recompute(slice(None), 0)
        dq[:] = (scale * (ds @ keys)).to(q.dtype)
        return dq, dk, dv, *[None] * 7


def merge(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    finite = torch.where(lse == -math.inf, 0.0, lse)
    weight_a = torch.exp(lse_a - finite)[..., None]
    weight_b = torch.exp(lse_b - finite)[..., None]
    return weight_a * out_a + weight_b * out_b, lse


def reference(q, k, v, **keywords):
    return attention(q.float(), k.float(), v.float(), **keywords)
