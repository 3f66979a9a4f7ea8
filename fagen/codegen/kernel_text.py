"""A kernel as text: its body, and the arguments that the body uses."""

from __future__ import annotations

from dataclasses import dataclass

from fagen.codegen.arguments import Argument


@dataclass(frozen=True)
class KernelText:
    """`name` is the function's name; `role` the key of its config."""

    name: str
    role: str
    arguments: tuple[Argument, ...]
    body: str
    text: str = ""
