"""Default launch configs as data: what a module uses until a tuner knows better.

Picked by hand on an H200 (bf16, head dims 64 and 128); for every other GPU of device/gpus.py, and
for wider heads and elements, as large as offline compilation says that they fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ROLES = ("forward", "dkdv", "dq", "prep")

#: How much of its row a program visits: "all" tiles and never a mask; "some", bounded on one side;
#: "few", bounded on both sides or found by tests, so that what comes before the loop weighs more.
#: "reads": whatever it visits, a table is read for every pair, which takes registers and, staged
#: beside k and v, shared memory.
Visits = Literal["all", "some", "few", "reads"]

#: Kernels without a config of their own, and one of the roles whose config they are launched with.
LAUNCHED_AS = {"query_walk": "forward", "key_walk": "dkdv", "tabulate": "prep"}


@dataclass(frozen=True)
class ConfigRow:
    """A config for devices with at least `shared_kib` KiB of shared memory a block, elements of
    at most `bytes` bytes and heads at most `width` columns wide (the wider of q.k and v).

    Rows are tried in order; the first that applies is used.
    """

    shared_kib: int
    bytes: int
    width: int
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


# What pays on sm_90 (and fits sm_100), by role and visits; these rows are tried before the others.
TUNED: dict[tuple[str, Visits], tuple[ConfigRow, ...]] = {
    ("forward", "all"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 128, 128, 8, 3),
    ),
    ("forward", "some"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 64, 64, 4, 3),
    ),
    ("forward", "few"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 64, 64, 4, 3),
    ),
    ("dkdv", "all"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 64, 128, 8, 4),
    ),
    ("dkdv", "some"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 32, 64, 4, 3),
    ),
    ("dkdv", "few"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 32, 64, 4, 3),
    ),
    ("dq", "all"): (
        ConfigRow(224, 2, 64, 128, 64, 4, 3),
        ConfigRow(224, 2, 128, 128, 64, 8, 3),
    ),
    ("dq", "some"): (
        ConfigRow(224, 2, 64, 64, 64, 4, 3),
        ConfigRow(224, 2, 128, 128, 64, 8, 3),
    ),
    ("dq", "few"): (
        ConfigRow(224, 2, 64, 64, 32, 4, 3),
        ConfigRow(224, 2, 128, 64, 64, 4, 2),
    ),
}

# Found by offline compilation: the largest tiles with which no shipped variant spills to speak of
# (device/defaults.py). Least KiB: 224 for sm_90 and sm_100, 163 sm_80, 160 gfx950, 96 sm_86, sm_89
# and sm_120, 0 gfx942 and the interpreter.
CONFIGS: dict[str, tuple[ConfigRow, ...]] = {
    "forward": (
        ConfigRow(163, 2, 64, 128, 64, 8, 3),
        ConfigRow(160, 2, 64, 128, 32, 8, 3),
        ConfigRow(96, 2, 64, 128, 64, 8, 3),
        ConfigRow(0, 2, 64, 128, 32, 8, 3),
        ConfigRow(163, 2, 128, 128, 64, 8, 2),
        ConfigRow(160, 2, 128, 128, 32, 8, 3),
        ConfigRow(96, 2, 128, 128, 64, 8, 2),
        ConfigRow(0, 2, 128, 128, 32, 8, 2),
        ConfigRow(224, 2, 256, 128, 32, 8, 3),
        ConfigRow(163, 2, 256, 64, 32, 8, 2),
        ConfigRow(160, 2, 256, 64, 32, 4, 2),
        ConfigRow(96, 2, 256, 64, 32, 8, 2),
        ConfigRow(0, 2, 256, 64, 32, 4, 2),
        ConfigRow(0, 4, 64, 64, 32, 8, 2),
        ConfigRow(163, 4, 128, 32, 64, 8, 2),
        ConfigRow(160, 4, 128, 32, 32, 8, 2),
        ConfigRow(96, 4, 128, 32, 64, 8, 2),
        ConfigRow(0, 4, 128, 32, 32, 8, 2),
        ConfigRow(163, 4, 256, 16, 32, 8, 2),
        ConfigRow(160, 4, 256, 32, 32, 4, 2),
        ConfigRow(96, 4, 256, 16, 16, 4, 2),
        ConfigRow(0, 4, 256, 32, 32, 4, 2),
        ConfigRow(0, 4, 1 << 20, 16, 16, 4, 1),
    ),
    "dkdv": (
        ConfigRow(163, 2, 64, 32, 128, 8, 2),
        ConfigRow(160, 2, 64, 16, 64, 8, 2),
        ConfigRow(96, 2, 64, 32, 128, 8, 2),
        ConfigRow(0, 2, 64, 16, 64, 8, 2),
        ConfigRow(96, 2, 96, 16, 64, 8, 2),
        ConfigRow(0, 2, 96, 16, 64, 4, 2),
        ConfigRow(163, 2, 128, 64, 64, 8, 2),
        ConfigRow(160, 2, 128, 16, 64, 8, 2),
        ConfigRow(96, 2, 128, 64, 64, 8, 2),
        ConfigRow(0, 2, 128, 16, 64, 4, 2),
        ConfigRow(163, 2, 256, 32, 32, 8, 2),
        ConfigRow(160, 2, 256, 16, 32, 4, 2),
        ConfigRow(96, 2, 256, 32, 32, 8, 2),
        ConfigRow(0, 2, 256, 16, 32, 4, 2),
        ConfigRow(163, 4, 64, 32, 32, 8, 2),
        ConfigRow(160, 4, 64, 32, 32, 8, 1),
        ConfigRow(96, 4, 64, 32, 32, 8, 2),
        ConfigRow(0, 4, 64, 32, 32, 8, 1),
        ConfigRow(0, 4, 128, 16, 32, 8, 2),
        ConfigRow(163, 4, 256, 16, 32, 8, 2),
        ConfigRow(160, 4, 256, 16, 32, 4, 1),
        ConfigRow(96, 4, 256, 16, 32, 8, 2),
        ConfigRow(0, 4, 256, 16, 32, 4, 1),
        ConfigRow(0, 4, 1 << 20, 16, 16, 4, 1),
    ),
    "dq": (
        ConfigRow(163, 2, 64, 128, 64, 8, 2),
        ConfigRow(160, 2, 64, 128, 32, 8, 2),
        ConfigRow(96, 2, 64, 128, 64, 8, 2),
        ConfigRow(0, 2, 64, 128, 32, 8, 2),
        ConfigRow(163, 2, 128, 128, 64, 8, 2),
        ConfigRow(160, 2, 128, 64, 32, 4, 2),
        ConfigRow(96, 2, 128, 128, 32, 8, 2),
        ConfigRow(0, 2, 128, 64, 32, 4, 2),
        ConfigRow(163, 2, 256, 64, 32, 8, 2),
        ConfigRow(160, 2, 256, 32, 32, 4, 1),
        ConfigRow(96, 2, 256, 32, 32, 4, 2),
        ConfigRow(0, 2, 256, 32, 32, 4, 1),
        ConfigRow(163, 4, 64, 32, 32, 8, 2),
        ConfigRow(160, 4, 64, 32, 32, 4, 2),
        ConfigRow(96, 4, 64, 32, 32, 8, 2),
        ConfigRow(0, 4, 64, 32, 32, 4, 2),
        ConfigRow(163, 4, 128, 32, 16, 8, 2),
        ConfigRow(160, 4, 128, 32, 32, 4, 1),
        ConfigRow(96, 4, 128, 32, 16, 8, 2),
        ConfigRow(0, 4, 128, 32, 32, 4, 1),
        ConfigRow(163, 4, 256, 16, 32, 8, 2),
        ConfigRow(160, 4, 256, 32, 16, 4, 2),
        ConfigRow(96, 4, 256, 16, 32, 8, 2),
        ConfigRow(0, 4, 256, 32, 16, 4, 2),
        ConfigRow(0, 4, 1 << 20, 16, 16, 4, 1),
    ),
    "prep": (ConfigRow(0, 4, 1 << 20, 64, 64, 4, 1),),
}


# The same where a table is read for every pair.
READING: dict[str, tuple[ConfigRow, ...]] = {
    "forward": (
        ConfigRow(96, 2, 128, 64, 64, 8, 2),
        ConfigRow(163, 2, 256, 32, 64, 8, 2),
        ConfigRow(160, 2, 256, 64, 32, 4, 2),
        ConfigRow(96, 2, 256, 32, 64, 8, 2),
        ConfigRow(0, 2, 256, 64, 32, 4, 2),
        ConfigRow(163, 4, 128, 32, 64, 8, 2),
        ConfigRow(160, 4, 128, 64, 32, 4, 2),
        ConfigRow(96, 4, 64, 32, 64, 8, 2),
        ConfigRow(96, 4, 128, 16, 32, 4, 2),
        ConfigRow(0, 4, 128, 64, 32, 4, 2),
        ConfigRow(0, 4, 1 << 20, 16, 16, 4, 1),
    ),
    "dkdv": (
        ConfigRow(0, 2, 64, 32, 32, 4, 2),
        ConfigRow(163, 2, 128, 32, 64, 8, 2),
        ConfigRow(160, 2, 128, 32, 32, 4, 2),
        ConfigRow(96, 2, 128, 32, 64, 8, 2),
        ConfigRow(0, 2, 128, 32, 32, 4, 2),
        ConfigRow(0, 2, 256, 32, 16, 4, 1),
        ConfigRow(0, 4, 128, 16, 32, 4, 2),
        ConfigRow(0, 4, 1 << 20, 16, 16, 4, 1),
    ),
    "dq": (
        ConfigRow(163, 2, 128, 64, 64, 8, 2),
        ConfigRow(160, 2, 128, 64, 32, 4, 2),
        ConfigRow(96, 2, 128, 64, 64, 8, 2),
        ConfigRow(0, 2, 128, 64, 32, 4, 2),
        ConfigRow(0, 2, 256, 32, 32, 4, 2),
        ConfigRow(0, 4, 64, 32, 32, 4, 2),
        ConfigRow(0, 4, 128, 16, 32, 4, 2),
        ConfigRow(0, 4, 1 << 20, 16, 16, 4, 1),
    ),
}


def rows_of(role: str, visits: Visits) -> tuple[ConfigRow, ...]:
    """The rows of a role in the order in which they are tried."""
    if visits == "reads" and role in READING:
        return READING[role]
    return TUNED.get((role, visits), ()) + CONFIGS[role]


def is_tuned(row: ConfigRow) -> bool:
    """Whether a row was chosen by its speed, measured, and not by what the compiler says of it."""
    return any(row in rows for rows in TUNED.values())
