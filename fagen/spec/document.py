"""The shape of a variant file as a pydantic model: keys, their meaning, and the JSON Schema."""

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
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

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

    type: Literal["int", "float", "bool"] = Field(description="its type")
    default: Number = Field(
        description="what a call takes that does not pass it", examples=[4096, 50.0, True]
    )
    min: Number = Field(
        None,
        description="the least value that a call may pass; without it `-2**28` of an int, "
        "`-2**100` of a float. With 1 or more, `x % w` is proven never to divide by zero",
        examples=[1],
    )
    max: Number = Field(
        None,
        description="the greatest value that a call may pass; without it `2**28` of an int, "
        "`2**100` of a float",
        examples=[65536],
    )
    static: StrictBool = Field(
        False,
        description="bake the default in: no argument of the call, but a constant, which may be "
        "the N of `range(N)`; a branch that it decides leaves nothing behind",
        examples=[True],
    )
    description: OneLine = Field(
        "", description="what it means, for the docstring", examples=["Keys, the own one included"]
    )


class TensorEntry(_Strict):
    """A run-time table, read by index in expressions."""

    shape: list[Length] = Field(
        description="the length of each axis: batch, heads, kv_heads, q_len, kv_len, head_dim, "
        "total_q, total_kv, an integer, an int parameter, or a name of your own, which the table "
        "passed to a call binds and expressions may use",
        examples=[["batch", "kv_len"], ["heads", "buckets"]],
    )
    dtype: Literal[DTYPES] = Field(  # type: ignore[valid-type]
        description="that of the torch tensor"
    )
    default: Expression = Field(
        None,
        description="an expression over what runs along the axes: b (batch), h (heads), kv_h "
        "(kv_heads), q_row (q_len), kv_idx (kv_len), q_token (total_q), kv_token (total_kv), and "
        "lengths. Without one every call passes the table",
        examples=["exp2(-8 * (h + 1) / heads)"],
    )
    grad: StrictBool = Field(
        False, description="train the table; `true` is refused, for it is not built yet"
    )
    nondecreasing: StrictBool = Field(
        False,
        description="a promise that its ints never fall along the last axis: then comparisons "
        "with it bound the keys that are visited",
        examples=[True],
    )
    range: Range = Field(
        None,
        description="a promise that its ints lie in [lo, hi): then reads with them as an index "
        "need no guard",
        examples=[[0, 64]],
    )
    description: OneLine = Field(
        "", description="what it holds, for the docstring", examples=["Label of each token"]
    )


class SoftmaxEntry(_Strict):
    """What is changed in the softmax itself."""

    sink: Expression = Field(
        description="a float of b, h and q; exp(sink) is added to the denominator, as by a "
        "key of that score whose value is 0",
        examples=["sinks[h]"],
    )


class ProblemEntry(_Strict):
    """One shape to tune for."""

    batch: StrictInt = Field(ge=1, description="sequences", examples=[4])
    heads: StrictInt = Field(ge=1, description="query heads", examples=[32])
    kv_heads: StrictInt | None = Field(
        None, ge=1, description="key/value heads; without it as heads", examples=[8]
    )
    q_len: StrictInt = Field(ge=1, description="queries of a sequence", examples=[4096])
    kv_len: StrictInt | None = Field(
        None, ge=1, description="keys of a sequence; without it as q_len", examples=[8192]
    )
    head_dim: StrictInt = Field(ge=1, description="width of q and k", examples=[128])
    head_dim_v: StrictInt | None = Field(
        None, ge=1, description="width of v; without it as head_dim", examples=[128]
    )
    dtype: Literal["float16", "bfloat16", "float32"] = Field(
        "bfloat16", description="of q, k and v"
    )


class TuningEntry(_Strict):
    """Shapes this variant is tuned for."""

    problems: list[ProblemEntry] = Field(description="the shapes, one mapping each")


class Document(_Strict):
    """A fagen attention variant."""

    name: OneLine = Field(
        description="identifier; also the generated module's name", examples=["sliding_window"]
    )
    description: OneLine = Field(
        "", description="one sentence, the module's docstring", examples=["Causal attention."]
    )
    extends: OneLine | None = Field(
        None,
        description="another variant, by its file beside this one or by the name of a shipped "
        "one, whose keys this file changes",
        examples=["causal", "base.yaml"],
    )
    parameters: dict[str, ParameterEntry] = Field(
        {}, description="scalars of the call: a name, and its entry"
    )
    tensors: dict[str, TensorEntry] = Field(
        {}, description="tables of the call: a name, and its entry"
    )
    let: dict[str, Expression] = Field(
        {},
        description="named subexpressions; each may use those above it",
        examples=[{"distance": "q_idx - kv_idx"}],
    )
    functions: dict[str, Expression] = Field(
        {},
        description="`name(arguments): expression`, expanded where they are called; none may call "
        "itself",
        examples=[{"causal(q, kv)": "q >= kv"}],
    )
    mask: Expression = Field(
        None,
        description="a bool; true where the query may attend to the key. Without it to every key",
        examples=["kv_idx <= q_idx"],
    )
    score: Expression = Field(
        None,
        description="a float; the score that softmax sees, made from `score`, the scaled q.k. "
        "Without it `score` as it is",
        examples=["cap * tanh(score / cap)"],
    )
    scale: Expression = Field(
        None,
        description="the factor on q.k of calls that pass none, of head_dim and parameters. "
        "Without it rsqrt(head_dim)",
        examples=["rsqrt(head_dim)", 1],
    )
    softmax: SoftmaxEntry | None = Field(None, description="what is changed in the softmax itself")
    position: Literal["end", "start"] = Field(
        "end",
        description="`end`: q holds the last tokens, so that q_idx = row + kv_len - q_len; "
        "`start`: q_idx = row. A call may pass q_offset and kv_offset instead",
    )
    accuracy: Literal["fast", "exact"] = Field(
        "fast",
        description="`fast` takes the approximate tanh of NVIDIA GPUs where q is float16 or "
        "bfloat16; `exact` never does",
    )
    partition: Literal["auto", "fa2", "fa3"] = Field(
        "auto",
        description="how warps share the work; every module holds `fa2` so far, and `fa3` has no "
        "effect yet",
    )
    passes: list[Literal["forward", "backward", "decode"]] = Field(
        ["forward", "backward", "decode"],
        min_length=1,
        description="what the module is for; no effect yet: every module holds the forward and the "
        "backward, and none decodes",
        examples=[["forward", "backward"]],
    )
    tuning: TuningEntry | None = Field(
        None, description="shapes to tune for; no effect yet: configs are each GPU's defaults"
    )


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a variant file, for editors."""
    schema = Document.model_json_schema()
    # Under `extends` an entry may give only what it changes, which a schema of one file cannot see.
    for entry in ("ParameterEntry", "TensorEntry"):
        schema["$defs"][entry].pop("required")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
