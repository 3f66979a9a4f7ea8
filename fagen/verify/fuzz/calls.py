"""Random calls of a draft: shapes, strides, dtypes, offsets, run-time values."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Literal, get_args

from fagen.verify.cases import Case, Layout, Loss, Tables
from fagen.verify.fuzz.ledger import Declared, Ledger

Device = Literal["cpu", "cuda"]

#: (BLOCK_M, BLOCK_N): small, so that lengths of a few dozen make three tiles and more.
TILES = ((16, 16), (16, 16), (16, 32), (32, 16))
ROLES = ("forward", "dkdv", "dq", "prep")
HEADS = {(1, 1): 60, (2, 1): 60, (2, 2): 20, (3, 1): 6, (4, 2): 6, (3, 3): 3, (6, 3): 1, (5, 1): 1}
WIDTHS = ((16, 16), (16, 16), (16, 16), (8, 8), (24, 16), (16, 48), (40, 24), (32, 32), (80, 16))
#: Tiles of one call, each of which takes the interpreter about 30 ms, forward and backward.
MOST_TILES = 12
WIDE = ((64, 64), (128, 128), (96, 64), (192, 128), (80, 80))


def draw_case(rng: Random, ledger: Ledger, device: Device) -> Case:
    """One call. Every axis has at least three tiles, now and then far fewer or none."""
    block_m, block_n = rng.choice(TILES)
    q_len = _length(rng, block_m)
    kv_len = q_len if rng.random() < 0.2 else _length(rng, block_n)
    heads, kv_heads = rng.choices(list(HEADS), list(HEADS.values()))[0]
    batch = rng.choice([1, 1, 1, 1, 2, 3])
    if device == "cpu":  # the interpreter takes its time for each tile
        batch = 1 if batch * heads > 3 else batch
        q_len, kv_len = _fewer_tiles(q_len, block_m, kv_len, block_n, batch * heads)
    widths = WIDTHS + WIDE * 3 if device == "cuda" else WIDTHS
    head_dim, head_dim_v = rng.choice(widths)
    dtypes = ["float32", "float32", "float16"] + ["bfloat16"] * (device == "cuda")
    wide_tiles = device == "cuda" and rng.random() < 0.5
    tiles = tuple((role, block_m, block_n) for role in ROLES)
    if wide_tiles:
        q_len, kv_len = 6 * q_len, 6 * kv_len
    case = Case(
        name="fuzz",
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        q_len=q_len,
        kv_len=kv_len,
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        dtype=rng.choice(dtypes),  # type: ignore[arg-type]
        layout=_one(rng, get_args(Layout), "contiguous"),
        offsets=_offsets(rng, q_len, kv_len),
        magnitude=rng.choice([None, None, None, None, 3.0, 12.0, 40.0]),
        tables=_one(rng, get_args(Tables), "drawn"),
        loss=_one(rng, get_args(Loss), "both"),
        tiles=None if wide_tiles else tiles,
        check="deterministic" if heads <= 2 and rng.random() < 0.05 else "attention",
        scale=rng.choice([0.4, 1.5]) if rng.random() < 0.1 else None,
        deterministic_fill=rng.random() < 0.05,
        values=values(rng, ledger, kv_len),
    )
    return packed(rng, case) if rng.random() < 0.15 else case


def packed(rng: Random, case: Case) -> Case:
    """The same call with the rows and keys of one sequence cut into several, some of them empty."""
    count = rng.randint(1, 5)
    sizes = zip(_cut(rng, case.q_len, count), _cut(rng, case.kv_len, count), strict=True)
    lengths = tuple(sizes)
    return replace(
        case, lengths=lengths, batch=count, offsets=(None, 0), loss="both", check="attention",
        q_len=max(q for q, _ in lengths), kv_len=max(kv for _, kv in lengths),
        deterministic_fill=False, magnitude=None,
        layout=case.layout if case.layout in ("contiguous", "nan_padded", "odd_stride")
        else "contiguous",
    )  # fmt: skip


def _cut(rng: Random, length: int, count: int) -> list[int]:
    at = sorted(rng.choice([0, length, rng.randint(0, length)]) for _ in range(count - 1))
    return [b - a for a, b in zip([0, *at], [*at, length], strict=True)]


def _one(rng: Random, options, usual: str, share: float = 0.5):
    return usual if rng.random() < share else rng.choice(list(options))


def _length(rng: Random, block: int) -> int:
    kind = rng.random()
    if kind < 0.05:
        return rng.choice([0, 1, 1, 2])
    if kind < 0.15:
        return rng.randint(1, 2 * block)
    if kind < 0.25:
        return rng.choice([3, 4]) * block
    return rng.randint(2 * block + 1, 4 * block + 3)


def _fewer_tiles(q_len: int, m: int, kv_len: int, n: int, heads: int) -> tuple[int, int]:
    """Lengths with three tiles each where more would take too long."""
    if heads * -(-q_len // m) * -(-kv_len // n) > MOST_TILES:
        q_len, kv_len = min(q_len, 2 * m + 1 + q_len % m), min(kv_len, 2 * n + 1 + kv_len % n)
    return q_len, kv_len


def _offsets(rng: Random, q_len: int, kv_len: int) -> tuple[int | None, int]:
    if rng.random() < 0.6:
        return None, 0
    q_offset = rng.choice([None, 0, rng.randint(-q_len, kv_len + 9), -21, 1000])
    kv_offset = rng.choice([0, 0, rng.randint(-kv_len, kv_len), 7])
    if q_offset == 1000 and rng.random() < 0.7:
        kv_offset = 980
    return q_offset, kv_offset


def values(rng: Random, ledger: Ledger, kv_len: int) -> tuple[tuple[str, int | float | bool], ...]:
    """Run-time values of most parameters, and of every free length."""
    found: list[tuple[str, int | float | bool]] = []
    lengths = {d for table in ledger.tables for d in table.shape}
    for parameter in ledger.parameters:
        if parameter.name in lengths:
            if not parameter.static:
                found.append((parameter.name, _length_value(rng, parameter)))
        elif not parameter.static and rng.random() < 0.85:
            found.append((parameter.name, _value(rng, parameter, kv_len)))
    found += [(length, rng.choice([1, 2, 5, 17, kv_len + 3])) for length in ledger.lengths]
    return tuple(found)


def _length_value(rng: Random, parameter: Declared) -> int:
    low, high = parameter.entry["min"], parameter.entry.get("max", 40)
    return rng.randint(low, min(high, 40))


def _value(rng: Random, parameter: Declared, kv_len: int) -> int | float | bool:
    if parameter.type == "bool":
        return rng.random() < 0.5
    low, high = parameter.entry.get("min"), parameter.entry.get("max")
    value: int | float
    if parameter.type == "int":
        value = rng.choice([0, 1, 2, rng.randint(-9, 30), rng.randint(0, kv_len + 2), kv_len])
        if rng.random() < 0.03:
            value = rng.choice([2**28, -(2**28)])
    else:
        value = rng.choice([0.0, 0.3, -1.5, rng.uniform(-3.0, 3.0), rng.uniform(0.05, 6.0)])
    value = value if low is None else max(value, low)
    value = value if high is None else min(value, high)
    return int(value) if parameter.type == "int" else float(value)
