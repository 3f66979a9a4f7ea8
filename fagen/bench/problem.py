"""What the speed table is made of: problems, cases, and the sizes of their masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


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

    `parameters` and `tensors` go to our module by keyword; `scale` where the variant's own is not
    rsqrt(head_dim), which every peer takes.
    """

    variant: str
    problem: Problem
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    mask_mod: MaskMod | None = None
    score_mod: ScoreMod | None = None
    scale: float | None = None

    @property
    def arguments(self) -> dict[str, int | float | Tensor]:
        scale = {} if self.scale is None else {"scale": self.scale}
        return {**self.parameters, **self.tensors, **scale}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the masks in tokens; the small ones let a short problem reach every branch."""

    window: int = 1024
    prefix: int = 512
    neighbors: int = 13


TIMED_SIZES = Sizes()
CHECK_SIZES = Sizes(window=200, prefix=100, neighbors=7)
