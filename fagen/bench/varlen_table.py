"""Packed sequences: against the dense call at equal lengths, and FlexAttention at uneven ones.

`python -m fagen.bench.varlen_table --out DIR` races `attention_varlen` of the causal, the window's
and the full variant with `attention` on the same tensors (slices of [batch, length, heads, dim]),
then 64 sequences of log-normal lengths with FlexAttention under a document mask, whose block mask
is built outside of the timing. Writes DIR/varlen.json and DIR/varlen.md.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from fagen.bench.correctness import LIMIT, relative_error
from fagen.bench.farm import one_line, own_caches
from fagen.bench.flex_search import candidates
from fagen.bench.modules import import_module, write_module
from fagen.bench.peers import Contestant, prepare_torch
from fagen.bench.provenance import provenance, write_atomically, write_json
from fagen.bench.timing import matmul_rate, race, seconds_of

HEADS = 16
EQUAL = ((4, 4096), (32, 512), (1, 16384))
SEQUENCES, MEAN, SPREAD, LONGEST = 64, 1024, 0.8, 8192
WINDOW = 1024

Action = Callable[[], Any]


def drawn(rows: int, head_dim: int, seed: int) -> tuple[Tensor, ...]:
    """q, k, v [rows, HEADS, head_dim] in bf16."""
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (rows, HEADS, head_dim)
    return tuple(
        torch.randn(shape, device="cuda", generator=generator).to(torch.bfloat16) for _ in range(3)
    )


def leaves_of(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(x.detach().requires_grad_() for x in tensors)


def ends(lengths: Sequence[int]) -> Tensor:
    total = [0, *itertools.accumulate(lengths)]
    return torch.tensor(total, dtype=torch.int32, device="cuda")


def packed(module: ModuleType, tensors: Sequence[Tensor], lengths: Sequence[int], **given: int):
    at, longest, leaves = ends(lengths), max(lengths), leaves_of(tensors)
    call = partial(module.attention_varlen, *leaves, at, at, longest, longest, **given)
    return Contestant("varlen", call, leaves)


def backward_of(contestant: Contestant) -> Action:
    return contestant.backward(torch.randn_like(contestant.forward()))


def raced(contestants: dict[str, Contestant], rounds: int, seed: int) -> dict[str, Any]:
    """Medians in ms of each contestant and direction, and what failed."""
    actions: dict[str, Action] = {}
    for name, contestant in contestants.items():
        actions[f"{name} forward"] = contestant.forward
        actions[f"{name} backward"] = backward_of(contestant)
    times, errors = race(actions, rounds=rounds, seed=seed)
    medians = {name: statistics.median(found) for name, found in times.items()}
    return {"ms": medians, "rounds": times, "errors": errors}


def equal_lengths(
    variant: str, module: ModuleType, batch: int, length: int, head_dim: int, rounds: int
) -> dict[str, Any]:
    given = {"window": WINDOW} if variant == "sliding_window" else {}
    tensors = drawn(batch * length, head_dim, 0)
    views = [x.view(batch, length, HEADS, head_dim).transpose(1, 2) for x in tensors]
    dense_leaves = leaves_of(views)
    dense = Contestant("dense", partial(module.attention, *dense_leaves, **given), dense_leaves)
    varlen = packed(module, tensors, [length] * batch, **given)
    same = dense.forward().transpose(1, 2).reshape(batch * length, HEADS, head_dim)
    found = raced({"dense": dense, "varlen": varlen}, rounds, 0)
    label = {"variant": variant, "batch": batch, "length": length, "head_dim": head_dim}
    return {**label, "difference": relative_error(varlen.forward(), same), **found}


def uneven_lengths(seed: int) -> list[int]:
    """Log-normal with mean MEAN; the same every time."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.tensor(float(MEAN)).log() - SPREAD**2 / 2
    drawn = torch.exp(torch.randn(SEQUENCES, generator=generator) * SPREAD + centre)
    return [int(x) for x in drawn.clamp(16, LONGEST)]


def uneven(module: ModuleType, head_dim: int, rounds: int) -> dict[str, Any]:
    lengths = uneven_lengths(0)
    total = sum(lengths)
    rows = -(-total // 128) * 128
    document = torch.full((rows,), -1, dtype=torch.int32, device="cuda")
    of_each = torch.tensor(lengths, device="cuda")
    document[:total] = torch.repeat_interleave(torch.arange(SEQUENCES, device="cuda"), of_each)

    def same_document(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (document[q] == document[kv]) & (q >= kv)

    make = partial(create_block_mask, same_document, None, None, rows, rows, device="cuda")
    mask = make()
    tensors = drawn(rows, head_dim, 0)
    contestants = {"ours": packed(module, [x[:total] for x in tensors], lengths)}
    right = contestants["ours"].forward()
    differences, errors = {}, {}
    for options in candidates("document", head_dim):
        name = f"flex {options}" if options else "flex default"
        try:
            torch._dynamo.reset()
            leaves = leaves_of([x.transpose(0, 1)[None].contiguous() for x in tensors])
            compiled = torch.compile(flex_attention, dynamic=False)
            call = partial(compiled, *leaves, block_mask=mask, kernel_options=options or None)
            peer = Contestant(name, call, leaves)
            differences[name] = relative_error(peer.forward()[0].transpose(0, 1)[:total], right)
            backward_of(peer)()
            contestants[name] = peer
        except Exception as error:
            errors[name] = one_line(error)
    found = raced(contestants, rounds, 0)
    return {
        "head_dim": head_dim, "tokens": total, "longest": max(lengths),
        "pairs": HEADS * sum(n * (n + 1) // 2 for n in lengths),
        "block_mask_ms": seconds_of(make)[0] * 1e3,
        "differences": differences, **found, "errors": {**errors, **found["errors"]},
    }  # fmt: skip


def best_peer(ms: dict[str, float], direction: str) -> float:
    return min(x for name, x in ms.items() if name.endswith(direction) and "flex" in name)


def report(record: dict[str, Any]) -> str:
    lines = [
        "# Packed sequences", "",
        f"{record['provenance']['card']['name']}, torch {record['provenance']['torch']}, triton "
        f"{record['provenance']['triton']}, {record['provenance']['date']}; bf16, {HEADS} heads, "
        f"medians in microseconds; 8k matrix product {record['matmul_tflops']:.0f} TFLOP/s.", "",
        "| variant | batch x length | head_dim | forward dense | packed | dense / packed "
        "| backward dense | packed | dense / packed | difference |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for cell in record["equal"]:
        cells = [cell["variant"], f"{cell['batch']} x {cell['length']}", str(cell["head_dim"])]
        for direction in ("forward", "backward"):
            dense, own = (cell["ms"][f"{n} {direction}"] for n in ("dense", "varlen"))
            cells += [f"{dense * 1e3:.0f}", f"{own * 1e3:.0f}", f"{dense / own:.2f}"]
        lines.append(f"| {' | '.join(cells)} | {cell['difference']:.0e} |")
    lines += [
        "", f"{SEQUENCES} causal sequences of log-normal lengths (mean {MEAN}).", "",
        "| head_dim | tokens | longest | forward ours | Flex, best | ratio | backward ours "
        "| Flex, best | ratio | Flex block mask ms |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for cell in record["uneven"]:
        cells = [str(cell[n]) for n in ("head_dim", "tokens", "longest")]
        for direction in ("forward", "backward"):
            own, peer = cell["ms"][f"ours {direction}"], best_peer(cell["ms"], direction)
            cells += [f"{own * 1e3:.0f}", f"{peer * 1e3:.0f}", f"{peer / own:.2f}"]
        lines.append(f"| {' | '.join(cells)} | {cell['block_mask_ms']:.1f} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog="python -m fagen.bench.varlen_table", description=__doc__)
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--head-dims", type=int, nargs="+", default=[128, 64])
    given = made.parse_args(arguments)
    if not torch.cuda.is_available():
        made.error("the race needs a GPU")
    own_caches()
    prepare_torch()
    given.out.mkdir(parents=True, exist_ok=True)
    variants = ("full", "causal", "sliding_window")
    paths = {name: write_module(name, given.out / "modules") for name in variants}
    modules = {name: import_module(path) for name, path in paths.items()}
    record: dict[str, Any] = {"provenance": provenance(paths), "matmul_tflops": matmul_rate()}
    record["uneven"] = [uneven(modules["causal"], d, given.rounds) for d in given.head_dims]
    record["equal"] = [
        equal_lengths(name, modules[name], batch, length, head_dim, given.rounds)
        for head_dim in given.head_dims
        for name in variants
        for batch, length in EQUAL
    ]
    write_json(given.out / "varlen.json", record)
    write_atomically(given.out / "varlen.md", report(record))
    print(report(record))
    wrong = [c for c in record["equal"] if not c["difference"] <= LIMIT]
    wrong += [c for c in record["uneven"] if any(not x <= LIMIT for x in c["differences"].values())]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
