"""What became of one trial, as plain data that survives JSON."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fagen.verify.cases import Case
from fagen.verify.fuzz.draft import Draft

Verdict = Literal["ok", "refused", "unsettled", "wrong", "crashed", "timed_out"]
FAULTS = ("wrong", "crashed", "timed_out")
#: How far a trial came.
Stage = Literal["spec", "render", "import", "call", "reference", "compile"]


@dataclass(frozen=True)
class Trial:
    """One draft, one call of it and the seed of the call's inputs: all that a repetition needs."""

    draft: Draft
    case: Case
    seed: int
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        return {
            "draft": self.draft.to_json(),
            "case": asdict(self.case),
            "seed": self.seed,
            "device": self.device,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Trial:
        return Trial(
            Draft.from_json(data["draft"]), case_of(data["case"]), data["seed"], data["device"]
        )


def case_of(data: dict[str, Any]) -> Case:
    """A Case from JSON, which has no tuples."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return Case(**{key: frozen(value) for key, value in data.items()})


@dataclass(frozen=True)
class Outcome:
    """`refused`: by the language, with a clean error. `unsettled`: wrong, but a comparison of
    floats in it hangs on rounding. `features` are the plan's and the call's; `worst` the largest
    ratio of an error to its limit."""

    verdict: Verdict
    stage: Stage = "call"
    message: str = ""
    features: tuple[str, ...] = ()
    worst: float = 0.0
    seconds: float = 0.0

    @property
    def is_fault(self) -> bool:
        return self.verdict in FAULTS

    @property
    def kind(self) -> str:
        """The same for what is likely one fault: the message without its particulars."""
        plain = re.sub(r"`[^`]*`", "`_`", self.message.split("\n")[0])
        plain = re.sub(r"-?\d[\w.+-]*", "#", plain)
        return f"{self.verdict} ({self.stage}): {plain[:100]}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Outcome:
        return Outcome(**{**data, "features": tuple(data["features"])})
