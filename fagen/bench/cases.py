"""The problems and variants of the speed table, each variant written as a FlexAttention user would.

A `Case` holds one variant at one problem: the arguments our module takes, and the same attention as
FlexAttention mods, written by hand and so independent of the compiler that is being measured. The
mask also counts the live pairs, and `dense_reference` evaluates the whole case in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

DOCUMENTS = 8
SINK_TOKENS = 4
CAP = 50.0


@dataclass(frozen=True)
class Problem:
    """Self-attention of `length` tokens: q [batch, heads, length, head_dim]; k, v: kv_heads."""

    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int

    @property
    def label(self) -> str:
        numbers = (self.batch, self.heads, self.kv_heads, self.length, self.head_dim)
        return ",".join(map(str, numbers))

    def inputs(self, device: str, seed: int) -> tuple[tuple[Tensor, ...], Tensor]:
        """Random bf16 (q, k, v), which require gradients, and the output's gradient."""
        generator = torch.Generator(device).manual_seed(seed)
        shapes = [self.heads, self.kv_heads, self.kv_heads, self.heads]
        made = [
            torch.randn(
                self.batch,
                heads,
                self.length,
                self.head_dim,
                device=device,
                dtype=torch.float32,
                generator=generator,
            ).to(torch.bfloat16)
            for heads in shapes
        ]
        return tuple(x.requires_grad_() for x in made[:3]), made[3]


SHAPES = (
    Problem(4, 16, 16, 4096, 128),
    Problem(4, 32, 8, 4096, 64),
    Problem(1, 16, 16, 16384, 128),
)


def parse_problem(text: str) -> Problem:
    """An index into SHAPES, or five numbers `batch,heads,kv_heads,length,head_dim`; ValueError."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"shape `{text}` is neither an index nor five whole numbers") from None
    if len(numbers) == 1:
        if not 0 <= numbers[0] < len(SHAPES):
            raise ValueError(f"shape {numbers[0]} is not one of 0 to {len(SHAPES) - 1}")
        return SHAPES[numbers[0]]
    if len(numbers) != 5 or min(numbers) < 1:
        raise ValueError(f"shape `{text}` must be batch,heads,kv_heads,length,head_dim, all >= 1")
    problem = Problem(*numbers)
    if problem.heads % problem.kv_heads:
        raise ValueError(f"shape `{text}`: {problem.heads} heads over {problem.kv_heads} kv_heads")
    return problem


@dataclass(frozen=True)
class Case:
    """One variant at one problem. Every row of every case has a live key.

    `parameters` and `tensors` go to our module by keyword.
    """

    variant: str
    problem: Problem
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    mask_mod: MaskMod | None = None
    score_mod: ScoreMod | None = None

    @property
    def arguments(self) -> dict[str, int | float | Tensor]:
        return {**self.parameters, **self.tensors}


def _causal(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return q >= kv


def _window_mod(window: int) -> MaskMod:
    def in_window(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (q >= kv) & (q - kv < window)

    return in_window


def _softcap(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return CAP * torch.tanh(score / CAP)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the masks in tokens; the small ones let a short problem reach every branch."""

    window: int = 1024
    prefix: int = 512


TIMED_SIZES = Sizes()
CHECK_SIZES = Sizes(window=200, prefix=100)


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
