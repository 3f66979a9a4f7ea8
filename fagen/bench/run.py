"""A benchmark run: its settings, its clock and the record that grows on disk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fagen.bench.provenance import write_atomically, write_json
from fagen.bench.report import render


@dataclass
class Run:
    """A run's settings and its growing record."""

    out: Path
    device: str
    rounds: int
    seed: int
    budget: float
    matmul_size: int
    configs: Mapping[str, Mapping[str, Mapping[str, int]]]
    record: dict[str, Any]
    modules: dict[str, Path] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def say(self, text: str) -> None:
        print(f"[{self.elapsed:6.1f}] {text}", flush=True)

    def save(self) -> None:
        write_json(self.out / "table.json", self.record)
        write_atomically(self.out / "table.md", render(self.record))
