"""The peers of the race: FlexAttention and cuDNN, each called as its users would.

A `Contestant` is one implementation at one case: a forward without arguments and the leaves whose
gradients its backward computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from fagen.bench.problem import Case, Problem
from fagen.bench.timing import milliseconds, seconds_of

FlexOptions = Mapping[str, int | bool]


@dataclass(frozen=True)
class Contestant:
    """`leaves` are q, k, v as this implementation takes them; `notes` goes to the record."""

    name: str
    forward: Callable[[], Tensor]
    leaves: tuple[Tensor, ...]
    notes: dict[str, Any] = field(default_factory=dict)

    def backward(self, d_out: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        """The backward of one forward, made now and kept: it may run any number of times."""
        out = self.forward()
        return lambda: torch.autograd.grad(out, self.leaves, d_out, retain_graph=True)


def prepare_torch() -> None:
    """Settings without which torch.compile cannot run one backward repeatedly or many cases."""
    import torch._dynamo
    import torch._functorch.config

    torch._dynamo.config.recompile_limit = 10_000
    torch._functorch.config.donated_buffer = False


def flex_block_mask(case: Case, device: str) -> BlockMask | None:
    """The case's block mask, of one batch entry and head: none of the masks reads either."""
    if case.mask_mod is None:
        return None
    length = case.problem.length
    return create_block_mask(case.mask_mod, None, None, length, length, device=device)


def block_mask_milliseconds(case: Case, device: str) -> float | None:
    """Time to build the block mask once more, in ms of wall time; None without a mask."""
    if case.mask_mod is None:
        return None
    flex_block_mask(case, device)
    took = sorted(seconds_of(lambda: flex_block_mask(case, device))[0] for _ in range(3))
    return took[1] * 1e3


def flex(
    case: Case,
    leaves: tuple[Tensor, ...],
    options: FlexOptions | None = None,
    block_mask: BlockMask | None = None,
) -> Contestant:
    """FlexAttention, compiled for static shapes at its first call; `block_mask` built before."""
    q, k, v = leaves
    compiled = torch.compile(flex_attention, dynamic=False)
    keywords: dict[str, Any] = {
        "score_mod": case.score_mod,
        "block_mask": block_mask,
        "enable_gqa": case.problem.heads != case.problem.kv_heads,
        "kernel_options": dict(options) if options else None,
    }
    notes = {"options": dict(options or {})}
    return Contestant("flex", lambda: compiled(q, k, v, **keywords), leaves, notes)


def cudnn(case: Case, leaves: tuple[Tensor, ...], d_out: Tensor) -> Contestant | None:
    """cuDNN through scaled_dot_product_attention; None for a variant it cannot express.

    Grouped heads are passed as such; where PyTorch refuses that, k and v are repeated beforehand,
    outside the timed region, and the notes say so.
    """
    if case.variant not in ("full", "causal"):
        return None
    causal, grouped = case.variant == "causal", case.problem.heads != case.problem.kv_heads

    def contestant(q: Tensor, k: Tensor, v: Tensor, gqa: bool, notes: dict[str, Any]) -> Contestant:
        def forward() -> Tensor:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)

        return Contestant("cudnn", forward, (q, k, v), notes)

    q, k, v = leaves
    if not grouped:
        return contestant(q, k, v, False, {})
    direct = contestant(q, k, v, True, {"grouped": "enable_gqa"})
    try:
        direct.backward(d_out)()
        return direct
    except RuntimeError as error:
        reason = str(error).splitlines()[0][:120]
    group = case.problem.heads // case.problem.kv_heads
    wide_k, wide_v = (x.detach().repeat_interleave(group, 1).requires_grad_() for x in (k, v))
    notes = {"grouped": f"k and v repeated beforehand ({reason})"}
    return contestant(q, wide_k, wide_v, False, notes)


def time_once(
    contestant: Contestant, d_out: Tensor, *, repeat: float = 40.0
) -> tuple[float, float]:
    """Forward and backward in ms, one quick measurement each."""
    forward = milliseconds(contestant.forward, warmup=10.0, repeat=repeat)
    return forward, milliseconds(contestant.backward(d_out), warmup=10.0, repeat=repeat)


def tiny_problem() -> Problem:
    """A problem whose work on the device is negligible beside the host's part of a call."""
    return Problem(1, 2, 2, 64, 64)
