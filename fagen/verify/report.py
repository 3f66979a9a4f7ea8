"""What a verification found, as plain data that survives JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["ok", "wrong", "crashed", "timed_out"]


@dataclass(frozen=True)
class Measure:
    """One quantity in one norm ("frobenius" or "maximum").

    `error` and `yardstick` are relative to the truth's norm (absolute where that is 0); `ratio` is
    error over limit: above 1 fails. The limit is 1.25 yardsticks and the allowances of
    `fagen.verify.yardstick`.
    """

    quantity: str
    norm: Literal["frobenius", "maximum"]
    error: float
    yardstick: float
    limit: float
    ratio: float


@dataclass(frozen=True)
class CaseResult:
    """One case: its verdict, what was measured and, unless ok, what is wrong."""

    name: str
    outcome: Verdict
    measures: tuple[Measure, ...] = ()
    message: str = ""
    seconds: float = 0.0

    @property
    def worst(self) -> float:
        """The largest ratio of error to limit; 0 where nothing was measured."""
        return max((m.ratio for m in self.measures), default=0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> CaseResult:
        measures = tuple(Measure(**m) for m in data["measures"])
        return CaseResult(**{**data, "measures": measures})


@dataclass(frozen=True)
class Report:
    """A verification: ok when every case is. `seed` repeats the very same inputs."""

    ok: bool
    cases: tuple[CaseResult, ...]
    seconds: float
    seed: int
    device: str

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        return tuple(c for c in self.cases if c.outcome != "ok")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
