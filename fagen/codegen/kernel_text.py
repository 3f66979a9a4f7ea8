"""A kernel as text: its body, and the arguments that the body uses."""

from __future__ import annotations

import re
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

    @property
    def launch_values(self) -> list[str]:
        """The launcher's texts in order; a matrix is asked for its three strides at once."""
        text = "\n".join(a.value for a in self.arguments)
        whole = re.sub(
            r"(\w+)\.stride\(0\)\n\1\.stride\(1\)\n\1\.stride\(2\)", r"*\1.stride()[:3]", text
        )
        return whole.split("\n")
