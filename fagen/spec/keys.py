"""The reference of a variant file's keys, written from the model that checks them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from fagen.spec.document import (
    Document,
    ParameterEntry,
    ProblemEntry,
    SoftmaxEntry,
    TensorEntry,
)

_INTRODUCTION = """\
# The keys of a variant file

Written from the model in `fagen/spec/document.py` by `python -m fagen.spec.keys >
docs/language.md`. What expressions may say is in [semantics.md](semantics.md).

A variant is one YAML file, one mapping; only `name` must be there:

```yaml
name: sliding_window
description: Causal attention over the last `window` keys, the query's own included.
parameters:
  window: {type: int, default: 4096, min: 1}
let:
  distance: q_idx - kv_idx
mask: 0 <= distance < window
```

Expressions are plain YAML text. One that begins with `*`, `&`, `!`, `[`, `{` or a quote, or that
contains `: ` or ` #`, needs quotes around it; inside `{...}` so does one with a comma or a square
bracket. A key that is not listed here is an error, and so is a parameter or tensor that nothing
uses.

An editor that speaks to the YAML language server (VS Code with its YAML extension, Neovim, Emacs)
completes and checks the keys by the JSON Schema that `fagen schema > fagen.schema.json` writes,
once the variant file names it in its first line, by a path from the file's own folder:

```yaml
# yaml-language-server: $schema=fagen.schema.json
name: my_variant
```
"""

_EXAMPLES = {
    "parameters": """\
A parameter is an argument of `attention`; a call that passes another value compiles nothing.

```yaml
parameters:
  window: {type: int, default: 1024, min: 1, description: "Keys, the query's own included"}
  cap: {type: float, default: 50.0, min: 1.0e-3}
  strict: {type: bool, default: true}
  tile: {type: int, default: 64, static: true}
mask: 0 <= q_idx - kv_idx < window and (q_idx // tile != kv_idx // tile or not strict)
score: cap * tanh(score / cap)
```
""",
    "tensors": """\
A tensor is an argument of `attention` too, on the device of q. `slopes` may be left out of a call,
`doc`, `bias` and `bucket` may not; `buckets` is whatever length the call's `bias` has.

```yaml
tensors:
  slopes: {shape: [heads], dtype: float32, default: "exp2(-8 * (h + 1) / heads)"}
  doc: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
  bias: {shape: [heads, buckets], dtype: float32}
  bucket: {shape: [256], dtype: int32, range: [0, 32]}
let:
  away: min(abs(q_idx - kv_idx), 255)
mask: doc[b, q_idx] == doc[b, kv_idx]
score: score - slopes[h] * away + bias[h, min(bucket[away], buckets - 1)]
```

Promises, `nondecreasing` and `range`, are taken on trust. With `FAGEN_CHECK=1` in the environment
every call checks them, and waits for the device to do so.
""",
    "softmax": """\
```yaml
tensors:
  sinks: {shape: [heads], dtype: float32}
softmax:
  sink: sinks[h]
```
""",
    "tuning.problems": """\
```yaml
tuning:
  problems:
    - {batch: 1, heads: 32, kv_heads: 8, q_len: 8192, head_dim: 128}
    - {batch: 64, heads: 32, kv_heads: 8, q_len: 1, kv_len: 4096, head_dim: 128}
```
""",
}

_MORE = """\
## Names and functions of your own

`let` names are values, in order; functions take arguments and are expanded where they are called,
so that a mask may be applied to other indices than `q_idx` and `kv_idx`:

```yaml
tensors:
  start: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
let:
  q_local: q_idx - start[b, q_idx]
  kv_local: kv_idx - start[b, kv_idx]
functions:
  near(q, kv): 0 <= q - kv < 512
mask: start[b, q_idx] == start[b, kv_idx] and near(q_local, kv_local)
```

## One variant from another

`extends` names a file beside this one, with or without its ending, or a variant that ships.
Mappings (`parameters`, `tensors`, `let`, `functions`, `softmax`, `tuning`, and each entry in them)
merge by name, all other keys are replaced; `name` and `description` are never taken over. In `mask`
and `score`, `inherited` stands for the parent's expression:

```yaml
name: soft_alibi
extends: alibi
parameters:
  cap: {type: float, default: 30.0, min: 1.0e-3}
score: cap * tanh(inherited / cap)
```

## Positions

With `position: end` a query's position is `row + kv_len - q_len`: q holds the last tokens of the
sequence, so one file serves training, prefill over a cache, and a step of decoding; where q is the
longer one, positions of its first rows are negative. With `position: start` it is the row, as in
FlexAttention. `q_row` is the row in either.

```yaml
position: start
mask: kv_idx <= q_idx
```

## Scale and accuracy

`score` holds q.k times the scale already, in natural units. A call may pass another `scale`.

```yaml
scale: 1.0 / 16
score: 20.0 * tanh(score / 20.0)
accuracy: exact
```

## Not yet

`partition: fa3`, `passes` and `tuning` are read and checked, and have no effect yet; `fagen build`
and `fagen explain` say so. `grad: true` is refused.

```yaml
partition: auto
passes: [forward, backward]
```
"""

_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("parameters", ParameterEntry),
    ("tensors", TensorEntry),
    ("softmax", SoftmaxEntry),
    ("tuning.problems", ProblemEntry),
)


def keys_page() -> str:
    """The page as Markdown: a table for the file and for each kind of entry, with examples."""
    parts = [_INTRODUCTION, "## The file\n", _table(Document)]
    for path, model in _SECTIONS:
        parts += [f"## `{path}`\n", f"{model.__doc__}\n", _table(model), _EXAMPLES[path]]
    return "\n".join([*parts, _MORE])


def _table(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    lines = ["| key | type | default | meaning | example |", "|---|---|---|---|---|"]
    for key, entry in schema["properties"].items():
        required = key in schema.get("required", ())
        default = "**required**" if required else _shown(entry.get("default"))
        example = _shown(entry["examples"][0]) if "examples" in entry else ""
        cells = (f"`{key}`", _kind(entry), default, entry["description"], example)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _kind(entry: dict[str, Any]) -> str:
    """The type of a property of the schema, in words."""
    options = [option for option in entry.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return _kind(options[0])
    if "$ref" in entry:
        return "mapping"
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    kind = entry["type"]
    if isinstance(kind, list):
        return {
            ("string", "number", "boolean"): "expression",
            ("number", "boolean"): "number or bool",
            ("string", "integer"): "length",
        }[tuple(kind)]
    if kind == "object":
        inner = _kind(entry["additionalProperties"])
        return f"mapping of names to {inner if inner == 'mapping' else 'expression'}s"
    if kind == "array":
        return "two ints" if "maxItems" in entry else f"list of {_listed(entry['items'])}"
    return {"string": "text", "integer": "int", "boolean": "bool"}[kind]


def _listed(items: dict[str, Any]) -> str:
    return _kind(items) if "enum" in items else f"{_kind(items)}s"


def _shown(value: Any) -> str:
    if value in (None, "", {}):
        return ""
    text = value if isinstance(value, str) else json.dumps(value).replace('"', "")
    return f"`{text}`"


if __name__ == "__main__":
    print(keys_page(), end="")
