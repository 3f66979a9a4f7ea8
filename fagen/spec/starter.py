"""The file that `fagen new NAME` writes: a working variant whose comments teach the language."""

from __future__ import annotations

from fagen.spec.errors import Diagnostic, SpecErrors
from fagen.spec.scope import misnamed

_TEXT = """\
# An attention variant. `fagen build {name}.yaml` turns it into a module of Triton kernels;
# `fagen explain {name}.yaml` shows what it means for the kernels. fagen's docs/language.md lists
# every key. For editors that check as you type, run `fagen schema > fagen.schema.json` and begin
# this file with the line `# yaml-language-server: $schema=fagen.schema.json`.
name: {name}
description: Causal attention over the last `window` keys, scores soft-capped.

# Scalars of the call: type int, float or bool. `static: true` bakes the default in.
parameters:
  window: {{type: int, default: 1024, min: 1}}
  cap: {{type: float, default: 50.0, min: 1.0e-3}}

# Tables of the call, read by index in expressions: slopes[h]. Lengths are batch, heads, kv_heads,
# q_len, kv_len, head_dim, integers, int parameters, or a name of your own.
# tensors:
#   slopes: {{shape: [heads], dtype: float32, default: exp2(-8 * (h + 1) / heads)}}

# Named subexpressions, in order.
let:
  distance: q_idx - kv_idx

# Which keys a query may attend to (a bool). Names: b, h, kv_h, q_idx, kv_idx, q_row, q_len, kv_len,
# batch, heads, kv_heads, head_dim, and what this file declares. Remove it for every key.
mask: 0 <= distance < window

# The new score (a float) from `score`, the scaled q.k. Remove it to leave the score as it is.
score: cap * tanh(score / cap)

# Queries hold the last positions of the sequence; `start` counts them from 0.
position: end
"""


def starter(name: str) -> str:
    """A commented variant file. Raises SpecErrors when `name` cannot be a variant's name."""
    if problem := misnamed(name, "a variant"):
        raise SpecErrors([Diagnostic(problem[0], hint=problem[1])])
    return _TEXT.format(name=name)
