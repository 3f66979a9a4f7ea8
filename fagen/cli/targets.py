"""`--target`: what the compiler targets (sm_90), or a GPU that has it (H100, RTX 4090)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fagen.cli.problems import UserError
from fagen.device.gpus import ARCHITECTURES, GPUS
from fagen.spec.errors import did_you_mean


def is_target(word: str) -> bool:
    """Whether the word names a target or a GPU."""
    return _plain(word) in _TARGETS


def target_of(word: str) -> str:
    """The target that a word names; raises UserError, which lists them all."""
    if is_target(word):
        return _TARGETS[_plain(word)]
    known = [*ARCHITECTURES, *(gpu.name for gpu in GPUS)]
    listed = ", ".join(
        f"{target} ({', '.join(gpu.name for gpu in GPUS if gpu.target == target)})"
        for target in ARCHITECTURES
    )
    close = did_you_mean(word, known)
    hint = f"{close} Known: {listed}" if close else f"known: {listed}"
    raise UserError(f"unknown target `{word}`", hint)


def targets_of(options: Sequence[str]) -> list[str]:
    """The targets of `--target A --target "B C"` or `--target A,B`; raises UserError."""
    words: list[str] = []
    for part in ",".join(options).split(","):
        # `RTX 4090` has a space of its own.
        words += [part] if is_target(part) else part.split()
    return [target_of(word) for word in words]


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]", "", word.casefold())


#: By their names without spaces and case; of RTX cards also without `RTX`.
_TARGETS = {_plain(target): target for target in ARCHITECTURES} | {
    _plain(name): gpu.target for gpu in GPUS for name in (gpu.name, gpu.name.removeprefix("RTX "))
}
