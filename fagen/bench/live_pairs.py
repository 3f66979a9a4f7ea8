"""Live pairs of a mask, counted one by one, and the arithmetic that attention owes for them."""

from __future__ import annotations

import torch

from fagen.bench.problem import Case, MaskMod

#: Two products a pair in the forward (scores, output), five in the backward (scores again, dP, dV,
#: dK, dQ), each of 2 * head_dim operations.
FORWARD_PER_PAIR_AND_DIM = 4
BACKWARD_PER_PAIR_AND_DIM = 10


def row_counts(
    mask: MaskMod | None,
    q_len: int,
    kv_len: int,
    *,
    b: int = 0,
    h: int = 0,
    device: str = "cpu",
    rows_at_once: int = 512,
) -> torch.Tensor:
    """Live keys of each query of one batch entry and head: int64 [q_len].

    The mask is evaluated for `rows_at_once` rows at a time, never for the whole square.
    """
    if mask is None:
        return torch.full((q_len,), kv_len, dtype=torch.int64, device=device)
    batch_entry, head = torch.tensor(b, device=device), torch.tensor(h, device=device)
    columns = torch.arange(kv_len, device=device)[None, :]
    counts = []
    for start in range(0, q_len, rows_at_once):
        rows = torch.arange(start, min(start + rows_at_once, q_len), device=device)[:, None]
        live = mask(batch_entry, head, rows, columns)
        counts.append(live.expand(len(rows), kv_len).sum(1, dtype=torch.int64))
    return torch.cat(counts) if counts else torch.zeros(0, dtype=torch.int64, device=device)


def live_pairs(
    mask: MaskMod | None,
    batch: int,
    heads: int,
    q_len: int,
    kv_len: int,
    *,
    varies: str = "",
    device: str = "cpu",
) -> int:
    """Live (query, key) pairs over all batch entries and heads.

    `varies` names the axes the mask reads: "" (neither), "b", "h" or "bh"; along the others one
    count serves all.
    """
    batches = range(batch if "b" in varies else min(batch, 1))
    head_range = range(heads if "h" in varies else min(heads, 1))
    counted = sum(
        int(row_counts(mask, q_len, kv_len, b=b, h=h, device=device).sum())
        for b in batches
        for h in head_range
    )
    repeats = (1 if "b" in varies else batch) * (1 if "h" in varies else heads)
    return counted * repeats


def case_pairs(case: Case, device: str = "cpu") -> int:
    """Live pairs of a case of the table; its hand-written masks read neither b nor h."""
    problem = case.problem
    return live_pairs(
        case.mask_mod, problem.batch, problem.heads, problem.length, problem.length, device=device
    )


def teraflops(pairs: int, head_dim: int, milliseconds: float, direction: str) -> float:
    """TFLOP/s of a pass over `pairs`; `direction` is "forward" or "backward"."""
    factor = {"forward": FORWARD_PER_PAIR_AND_DIM, "backward": BACKWARD_PER_PAIR_AND_DIM}
    return factor[direction] * pairs * head_dim / milliseconds / 1e9
