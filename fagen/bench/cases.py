"""The problems and variants of the speed table, each variant written as a FlexAttention user would.

The mods are written by hand and so independent of the compiler that is being measured. The mask
also counts the live pairs, and `dense_reference` evaluates the whole case in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fagen.bench import language_cases
from fagen.bench.problem import TIMED_SIZES, Case, MaskMod, Problem, Sizes

DOCUMENTS = 8
SINK_TOKENS = 4
CAP = 50.0


def _causal(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return q >= kv


def _window_mod(window: int) -> MaskMod:
    def in_window(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (q >= kv) & (q - kv < window)

    return in_window


def _softcap(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return CAP * torch.tanh(score / CAP)


def _full(problem: Problem, device: str, sizes: Sizes) -> Case:
    return Case("full", problem)


def _causal_case(problem: Problem, device: str, sizes: Sizes) -> Case:
    return Case("causal", problem, mask_mod=_causal)


def _sliding_window(problem: Problem, device: str, sizes: Sizes) -> Case:
    return Case(
        "sliding_window", problem, {"window": sizes.window}, mask_mod=_window_mod(sizes.window)
    )


def _alibi(problem: Problem, device: str, sizes: Sizes) -> Case:
    slopes = torch.exp2(-8.0 * (torch.arange(problem.heads, device=device) + 1) / problem.heads)

    def bias(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return score + slopes[h] * (kv - q)

    return Case("alibi", problem, mask_mod=_causal, score_mod=bias)


def _prefix_lm(problem: Problem, device: str, sizes: Sizes) -> Case:
    prefix = sizes.prefix

    def in_prefix_or_past(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (q >= kv) | (kv < prefix)

    lengths = torch.full((problem.batch,), prefix, dtype=torch.int32, device=device)
    return Case("prefix_lm", problem, tensors={"prefix": lengths}, mask_mod=in_prefix_or_past)


def _document(problem: Problem, device: str, sizes: Sizes) -> Case:
    positions = torch.arange(problem.length, device=device)
    document = (positions // -(-problem.length // DOCUMENTS)).to(torch.int32)

    def same_document(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (document[q] == document[kv]) & (q >= kv)

    table = document.expand(problem.batch, -1).contiguous()
    return Case("document", problem, tensors={"doc": table}, mask_mod=same_document)


def _softcap_case(problem: Problem, device: str, sizes: Sizes) -> Case:
    return Case("softcap", problem, {"cap": CAP}, mask_mod=_causal, score_mod=_softcap)


def _sinks_window(problem: Problem, device: str, sizes: Sizes) -> Case:
    window = sizes.window

    def sink_or_window(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (q >= kv) & ((kv < SINK_TOKENS) | (q - kv < window))

    parameters = {"n_sink": SINK_TOKENS, "window": window}
    return Case("sinks_window", problem, parameters, mask_mod=sink_or_window)


def _gemma2_local(problem: Problem, device: str, sizes: Sizes) -> Case:
    return Case(
        "gemma2_local",
        problem,
        {"window": sizes.window, "cap": CAP},
        mask_mod=_window_mod(sizes.window),
        score_mod=_softcap,
    )


_BUILDERS: dict[str, Callable[[Problem, str, Sizes], Case]] = {
    "full": _full,
    "causal": _causal_case,
    "sliding_window": _sliding_window,
    "alibi": _alibi,
    "prefix_lm": _prefix_lm,
    "document": _document,
    "softcap": _softcap_case,
    "sinks_window": _sinks_window,
    "gemma2_local": _gemma2_local,
}
FIRST = tuple(_BUILDERS)
_BUILDERS |= language_cases.BUILDERS
VARIANTS = tuple(_BUILDERS)


def case_of(variant: str, problem: Problem, device: str, sizes: Sizes = TIMED_SIZES) -> Case:
    """The case of a variant's name; ValueError names the known ones."""
    if variant not in _BUILDERS:
        raise ValueError(f"no case for `{variant}`; there are {', '.join(VARIANTS)}")
    return _BUILDERS[variant](problem, device, sizes)


def dense_reference(case: Case, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """out and natural lse of the case, dense, in the dtype of q (meant for float64)."""
    problem, device = case.problem, q.device
    group = problem.heads // problem.kv_heads
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * problem.head_dim**-0.5
    b = torch.arange(problem.batch, device=device).view(-1, 1, 1, 1)
    h = torch.arange(problem.heads, device=device).view(1, -1, 1, 1)
    rows = torch.arange(problem.length, device=device).view(1, 1, -1, 1)
    columns = torch.arange(problem.length, device=device).view(1, 1, 1, -1)
    if case.score_mod is not None:
        scores = case.score_mod(scores, b, h, rows, columns)
    if case.mask_mod is not None:
        scores = scores.masked_fill(~case.mask_mod(b, h, rows, columns), float("-inf"))
    lse = torch.logsumexp(scores, -1)
    return torch.exp(scores - lse[..., None]) @ v, lse
