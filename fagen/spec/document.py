"""The shape of a variant file as a pydantic model: validation by key, and the JSON Schema."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from fagen.spec.errors import Diagnostic, did_you_mean
from fagen.spec.source import Mapping, Node, Scalar, Sequence, data

DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32")


def _expression(value: Any) -> Any:
    if value is None or isinstance(value, (dict, list)):
        raise PydanticCustomError("fagen", "must be an expression")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, (int, float)) and value == value:
        return value
    raise PydanticCustomError("fagen", "must be a number or a bool")


def _length(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise PydanticCustomError("fagen", "must be a length: a name or an integer")
    if isinstance(value, int) and not 1 <= value < 2**31:
        raise PydanticCustomError("fagen", "must be at least 1")
    return value


def _range(value: Any) -> tuple[int, int]:
    pair = value if isinstance(value, list) else []
    if len(pair) != 2 or not all(isinstance(v, int) and not isinstance(v, bool) for v in pair):
        raise PydanticCustomError("fagen", "must be two ints, [lo, hi]; hi itself does not occur")
    return (pair[0], pair[1])


def _text(value: Any) -> str:
    if value is None or isinstance(value, (dict, list, bool)):
        raise PydanticCustomError("fagen", "must be text (put it in quotes)")
    text = " ".join(str(value).split())
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs"):
            shown = f"U+{ord(character):04X}"
            raise PydanticCustomError("fagen", f"must hold no control character, here {shown}")
    return text


def _schema(described: str, *kinds: str) -> WithJsonSchema:
    return WithJsonSchema({"type": list(kinds), "description": described})


Expression = Annotated[
    Any, PlainValidator(_expression), _schema("an expression", "string", "number", "boolean")
]
Number = Annotated[Any, PlainValidator(_number), _schema("a constant", "number", "boolean")]
Length = Annotated[Any, PlainValidator(_length), _schema("a length", "string", "integer")]
Range = Annotated[
    Any,
    PlainValidator(_range),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "[lo, hi) of its values",
        }
    ),
]
OneLine = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ParameterEntry(_Strict):
    """A run-time scalar; `static: true` bakes its default into the kernel."""

    type: Literal["int", "float", "bool"]
    default: Number
    min: Number = None
    max: Number = None
    static: StrictBool = False
    description: OneLine = ""


class TensorEntry(_Strict):
    """A run-time table, read by index in expressions."""

    shape: list[Length]
    dtype: Literal[DTYPES]  # type: ignore[valid-type]
    default: Expression = None
    grad: StrictBool = False
    nondecreasing: StrictBool = False
    range: Range = None
    description: OneLine = ""


class SoftmaxEntry(_Strict):
    """`sink: x` adds exp(x) to the softmax's denominator."""

    sink: Expression


class ProblemEntry(_Strict):
    """One shape to tune for."""

    batch: StrictInt = Field(ge=1)
    heads: StrictInt = Field(ge=1)
    kv_heads: StrictInt | None = Field(None, ge=1)
    q_len: StrictInt = Field(ge=1)
    kv_len: StrictInt | None = Field(None, ge=1)
    head_dim: StrictInt = Field(ge=1)
    head_dim_v: StrictInt | None = Field(None, ge=1)
    dtype: Literal["float16", "bfloat16", "float32"] = "bfloat16"


class TuningEntry(_Strict):
    """Shapes this variant is tuned for."""

    problems: list[ProblemEntry]


class Document(_Strict):
    """A fagen attention variant."""

    name: OneLine = Field(description="identifier; also the generated module's name")
    description: OneLine = Field("", description="one sentence")
    extends: OneLine | None = Field(None, description="another variant: its name or its file")
    parameters: dict[str, ParameterEntry] = {}
    tensors: dict[str, TensorEntry] = {}
    let: dict[str, Expression] = Field({}, description="named subexpressions, in order")
    functions: dict[str, Expression] = Field({}, description="name(args): expression")
    mask: Expression = Field(None, description="bool; true = the query may attend to the key")
    score: Expression = Field(None, description="float; the new score")
    scale: Expression = Field(None, description="default factor on q.k, over head_dim")
    softmax: SoftmaxEntry | None = None
    position: Literal["end", "start"] = "end"
    accuracy: Literal["fast", "exact"] = "fast"
    partition: Literal["auto", "fa2", "fa3"] = "auto"
    passes: list[Literal["forward", "backward", "decode"]] = Field(
        ["forward", "backward", "decode"], min_length=1
    )
    tuning: TuningEntry | None = None


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a variant file, for editors."""
    schema = Document.model_json_schema()
    # Under `extends` an entry may give only what it changes, which a schema of one file cannot see.
    for entry in ("ParameterEntry", "TensorEntry"):
        schema["$defs"][entry].pop("required")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): Document,
    ("parameters", "*"): ParameterEntry,
    ("tensors", "*"): TensorEntry,
    ("softmax",): SoftmaxEntry,
    ("tuning",): TuningEntry,
    ("tuning", "problems", "*"): ProblemEntry,
}


def validate(root: Mapping) -> tuple[Document, list[Diagnostic]]:
    """The document without its faulty parts, and the errors."""
    values: Any = data(root)
    problems: list[Diagnostic] = []
    while True:
        try:
            return Document.model_validate(values), problems
        except ValidationError as error:
            # The first round reports; later ones only meet what the cuts of earlier ones left.
            found = [(_steps(e["loc"]), e) for e in error.errors(include_url=False)]
            if not problems:
                problems = [_diagnostic(root, s, e) for s, e in found if not _misspelt(s, e, found)]
            for steps, e in found:
                _cut(values, steps, missing=e["type"] == "missing")


def _misspelt(steps: tuple[str, ...], error: Any, found: list) -> bool:
    """Whether the key that lacks is there in another spelling, which is reported by itself."""
    return error["type"] == "missing" and any(
        other["type"] == "extra_forbidden"
        and there[:-1] == steps[:-1]
        and did_you_mean(there[-1], [steps[-1]])
        for there, other in found
    )


def _steps(loc: tuple[str | int, ...]) -> tuple[str, ...]:
    return tuple(map(str, loc))


def _cut(values: Any, steps: tuple[str, ...], missing: bool) -> None:
    """Removes what is in error: a key, or the entry that lacks one."""
    if missing:
        if len(steps) == 1:
            values["name"] = "unnamed"
            return
        steps = steps[:-1]
    while steps:
        holder = values
        for step in steps[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and steps[-1] in holder:
            del holder[steps[-1]]
            return
        steps = steps[:-1]  # inside a list: the list goes


def _locate(root: Mapping, steps: tuple[str, ...]) -> tuple[Scalar | None, Node]:
    key: Scalar | None = None
    node: Node = root
    for step in steps:
        if isinstance(node, Mapping) and step in node.entries:
            key, node = node.entries[step]
        elif isinstance(node, Sequence) and step.isdigit() and int(step) < len(node.items):
            node = node.items[int(step)]
        else:
            break
    return key, node


def _diagnostic(root: Mapping, steps: tuple[str, ...], error: Any) -> Diagnostic:
    key, node = _locate(root, steps)
    where = ".".join(steps)
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = _MODELS[tuple("*" if _numbered(steps, i) else s for i, s in enumerate(steps[:-1]))]
        hint = did_you_mean(steps[-1], known.model_fields) or (
            f"the keys here are {', '.join(known.model_fields)}"
        )
        inside = f" in `{'.'.join(steps[:-1])}`" if steps[:-1] else ""
        return (key or node).error(f"unknown key `{steps[-1]}`{inside}", hint)
    if kind == "missing":
        if len(steps) == 1:
            return Diagnostic(
                f"the variant has no `{steps[0]}`", node.source.path, hint=f"add `{steps[0]}: ...`"
            )
        message = f"`{'.'.join(steps[:-1])}` has no `{steps[-1]}`"
        return (key or node).error(message, f"add `{steps[-1]}: ...`")
    at: Node = key if key is not None and not _visible(node) else node
    if isinstance(node, Scalar) and node.plain is None:
        return at.error(f"`{where}` is empty", "remove the key, or give it a value")
    if kind == "literal_error":
        given = node.value if isinstance(node, Scalar) else "this"
        choices = str(context["expected"]).replace("'", "`")
        hint = did_you_mean(given, choices.split("`")[1::2])
        return at.error(f"`{where}` must be {choices}", hint)
    return at.error(f"`{where}` {_WORDS.get(kind, error['msg'][:1].lower() + error['msg'][1:])}")


_WORDS = {
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "int_type": "must be an int",
    "int_from_float": "must be an int",
    "too_short": "must not be empty",
    "greater_than_equal": "must be at least 1",
}


def _numbered(steps: tuple[str, ...], i: int) -> bool:
    return i > 0 and steps[i - 1] in ("parameters", "tensors", "problems")


def _visible(node: Node) -> bool:
    return node.end > node.start and not isinstance(node, Mapping)
