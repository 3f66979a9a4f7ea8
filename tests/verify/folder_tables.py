"""Tables for the formulas of `folder_formulas`: each function takes batch, heads, q_len, kv_len."""

from __future__ import annotations

from collections.abc import Callable

import torch

Tables = dict[str, torch.Tensor]


def documents(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    ids = torch.zeros(batch, kv_len, dtype=torch.int32)
    for b in range(batch):
        for start in (1, 3 + b, 8, 19):
            ids[b, start:] += 1
    return {"doc": ids}


def documents_with_starts(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    starts = [[0, 1, min(3 + b, 8), 8, 19] for b in range(batch)]
    return documents(batch, heads, q_len, kv_len) | {
        "start": torch.tensor(starts, dtype=torch.int32)
    }


def starts(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    cuts = [max(s for s in (0, 4, 5, 17) if s <= i) for i in range(kv_len)]
    return {"doc_start": torch.tensor([cuts] * batch, dtype=torch.int32)}


def drawn(**shapes) -> Callable[..., Tables]:
    """Tables of normal values; a shape's words are lengths of the call."""

    def tables(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
        sizes = {"batch": batch, "heads": heads, "q_len": q_len, "kv_len": kv_len}
        generator = torch.Generator().manual_seed(3)
        return {
            name: torch.randn([sizes.get(s, s) for s in shape], generator=generator)
            for name, shape in shapes.items()
        }

    return tables


def block_table(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    generator = torch.Generator().manual_seed(5)
    return {"live": torch.rand(batch, heads, 7, 6, generator=generator) < 0.4}


def tree_tables(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    node = torch.arange(q_len)
    ancestor = (node[:, None] == node) | (node[:, None] % 5 == node * 2)
    prefix = torch.arange(batch, dtype=torch.int32) + max(kv_len - q_len, 0)
    return {"prefix": prefix, "ancestor": ancestor.expand(batch, q_len, q_len).contiguous()}


def bit_table(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    generator = torch.Generator().manual_seed(7)
    shape = (batch, q_len, -(-kv_len // 32))
    words = torch.randint(-(2**31), 2**31, shape, generator=generator)
    return {"packed": words.to(torch.int32)}


def graph_tables(batch: int, heads: int, q_len: int, kv_len: int) -> Tables:
    generator = torch.Generator().manual_seed(11)
    dist = torch.randint(0, 14, (batch, q_len, kv_len), generator=generator)
    return {"bias": torch.randn(heads, 12, generator=generator), "dist": dist.to(torch.int32)}
