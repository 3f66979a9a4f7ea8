"""A transformer of two layers whose attention is a generated module, for torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from generated import module
from torch import nn

WINDOW = module("sliding_window")


class Block(nn.Module):
    """One layer of width 2 * `head_dim`, two query heads over one key head."""

    def __init__(self, head_dim: int, config: dict[str, Any] | None) -> None:
        super().__init__()
        width = 2 * head_dim
        self.head_dim, self.config = head_dim, config
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 2 * width)
        self.leave = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor, window: int) -> torch.Tensor:
        batch, length, width = x.shape
        n = self.head_dim
        q, k, v = self.project(self.norm(x)).split((width, n, n), -1)
        q = q.view(batch, length, 2, n).transpose(1, 2)
        k, v = (y.view(batch, length, 1, n).transpose(1, 2) for y in (k, v))
        out, lse = WINDOW.attention(q, k, v, window=window, return_lse=True, config=self.config)
        out = out * torch.sigmoid(lse)[..., None].to(out.dtype)
        x = x + self.leave(out.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, head_dim: int = 16, config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(head_dim, config) for _ in range(2)])

    def forward(self, x: torch.Tensor, window: int = 9) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, window)
        return x


def gradients(model: nn.Module, run, x: torch.Tensor) -> list[torch.Tensor]:
    """The output of `run` and the gradient of every parameter of the model."""
    model.zero_grad()
    out = run(x)
    out.float().square().mean().backward()
    return [out.detach().clone(), *(p.grad.clone() for p in model.parameters())]
