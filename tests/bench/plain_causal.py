"""A module of the generated kind, in plain PyTorch: causal attention for tests without a GPU."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Config:
    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int


def attention(
    q, k, v, *, scale=None, return_lse=False, q_offset=None, kv_offset=0,
    deterministic=None, partition=None, config=None,
):  # fmt: skip
    for role, given in (config or {}).items():
        if given.BLOCK_N == 128:
            raise RuntimeError(f"out of shared memory: {role}")
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (q.float() @ k.float().mT) * (scale or q.shape[-1] ** -0.5)
    live = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~live, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    out = (torch.exp(scores - lse[..., None]).to(v.dtype) @ v).to(q.dtype)
    return (out, lse) if return_lse else out
