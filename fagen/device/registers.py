"""Registers, spills and stack, read from what the vendors' assemblers report."""

from __future__ import annotations

import re
from dataclasses import dataclass


class UnreadableReport(Exception):
    """An assembler's report without the figures it is known to hold."""


@dataclass(frozen=True)
class Registers:
    """The register figures of `outcome.Resources`, in its units."""

    registers: int
    spilled: int
    stack: int
    scalar_spills: int = 0
    serialised: tuple[str, ...] = ()


_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
# C7510 to C7519, the codes of which vary with the version.
_SERIALISED = re.compile(
    r"wgmma\.mma_async instructions are serialized due to (.+?) in (?:the )?func"
)


def from_ptxas(log: str) -> Registers:
    """From `ptxas -v`; functions that were not inlined count with their kernel."""
    frames, used = _FRAME.findall(log), _USED.findall(log)
    if not frames or not used:
        raise UnreadableReport(f"no register figures in the ptxas log: {log[:400]!r}")
    return Registers(
        registers=max(map(int, used)),
        spilled=sum(int(stores) + int(loads) for _, stores, loads in frames),
        stack=sum(int(stack) for stack, _, _ in frames),
        serialised=tuple(dict.fromkeys(_SERIALISED.findall(log))),
    )


def from_amdgcn(assembly: str) -> Registers:
    """From the kernel metadata at the end of AMD assembly (LLVM's AMDGPU usage guide).

    LLVM counts spilled vector registers and not the bytes moved: each is 4 bytes a lane, written
    at least once and read at least once, so 8 is the least it can be.
    """

    def figure(key: str) -> int:
        found = re.search(rf"^\s*\.{key}:\s*(\d+)", assembly, re.MULTILINE)
        if found is None:
            raise UnreadableReport(f"no `.{key}` in the AMD assembly")
        return int(found.group(1))

    return Registers(
        registers=figure("vgpr_count"),
        spilled=8 * figure("vgpr_spill_count"),
        stack=figure("private_segment_fixed_size"),
        scalar_spills=figure("sgpr_spill_count"),
    )
