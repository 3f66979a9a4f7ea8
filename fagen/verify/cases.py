"""The problems a module must get right before anyone trusts it, chosen to sit on the edges.

Plain data: nothing here imports torch, so that a build can plan a verification cheaply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from fagen.spec.expr import names_in, tensors_in
from fagen.spec.names import DIMENSIONS
from fagen.spec.variant import Variant

Level = Literal["quick", "full", "shapes"]
Layout = Literal[
    "contiguous", "bshd", "nan_padded", "k_sliced", "k_expanded", "v_rows", "odd_stride"
]
Loss = Literal["both", "out", "lse", "sum"]
Choice = Literal["default", "smallest", "one", "five", "half"]
Tables = Literal["drawn", "default", "starts", "extreme", "nan_padded"]
Check = Literal["attention", "deterministic", "merge", "split", "reference"]

#: (BLOCK_M, BLOCK_N) of each role. tl.dot needs 16 or more of each; they differ, and lengths near
#: 80 make at least three tiles of either.
Tiles = tuple[tuple[str, int, int], ...]
WIDE_KEYS: Tiles = (("forward", 16, 32), ("dkdv", 16, 32), ("dq", 16, 32), ("prep", 16, 32))
WIDE_ROWS: Tiles = (("forward", 32, 16), ("dkdv", 32, 16), ("dq", 32, 16), ("prep", 32, 16))


@dataclass(frozen=True)
class Case:
    """One call of the module and what is special about it.

    `magnitude` is the largest |scaled q.k| wanted, or None for standard normal inputs. `tiles`
    None takes the module's own configuration. `offsets` are (q_offset, kv_offset) to pass.
    `loss`: which outputs the gradient comes through; "sum" gives an expanded (stride 0) gradient.
    `check`: "attention" compares with float64; "deterministic" runs twice, bit for bit; "merge"
    and "split" try the public merge; "reference" the module's own dense function. `values` gives
    (name, value) of parameters, in place of those of `parameters`, and of free lengths. `lengths`
    are (q_len, kv_len) of sequences to pack; batch, q_len and kv_len are then their number and the
    longest.
    """

    name: str
    batch: int = 1
    heads: int = 2
    kv_heads: int = 1
    q_len: int = 75
    kv_len: int = 83
    head_dim: int = 16
    head_dim_v: int = 16
    dtype: Literal["float16", "bfloat16", "float32"] = "float32"
    layout: Layout = "contiguous"
    offsets: tuple[int | None, int] = (None, 0)
    magnitude: float | None = None
    parameters: Choice = "default"
    tables: Tables = "drawn"
    loss: Loss = "both"
    tiles: Tiles | None = WIDE_KEYS
    check: Check = "attention"
    scale: float | None = None
    deterministic_fill: bool = False
    lengths: tuple[tuple[int, int], ...] | None = None
    values: tuple[tuple[str, int | float | bool], ...] = ()


def _packed(name: str, lengths: tuple[tuple[int, int], ...], **rest: Any) -> Case:
    q_len, kv_len = (max(sizes) for sizes in zip(*lengths, strict=True))
    return Case(name, len(lengths), q_len=q_len, kv_len=kv_len, lengths=lengths, **rest)


_CORE = (
    Case("plain"),
    Case("half precision", dtype="float16", tiles=WIDE_ROWS, parameters="half"),
    Case("more queries than keys", q_len=83, kv_len=50, tiles=WIDE_ROWS, parameters="five"),
    Case("few queries at the end", q_len=7, kv_len=101, heads=4, kv_heads=2, parameters="half"),
    Case("one query, one key", q_len=1, kv_len=1, heads=1),
    Case("no keys", q_len=5, kv_len=0),
    Case("no queries", q_len=0, kv_len=20),
    Case("no batch", batch=0, q_len=20, kv_len=20),
    Case("NaN beyond every end", q_len=70, kv_len=67, layout="nan_padded", tables="nan_padded",
         parameters="half", tiles=WIDE_ROWS),
    Case("half precision, NaN beyond every end", dtype="float16", q_len=51, kv_len=70,
         layout="nan_padded", tables="nan_padded", parameters="five"),
    Case("smallest parameters", q_len=50, kv_len=65, parameters="smallest", tables="extreme"),
    Case("parameters of one", q_len=49, kv_len=67, parameters="one", tiles=WIDE_ROWS,
         tables="starts"),
    Case("large scores", dtype="float16", magnitude=100.0, q_len=49, kv_len=65),
    Case("large scores in float32", magnitude=100.0, q_len=33, kv_len=65, parameters="half"),
    Case("batch-seq-head tensors", batch=2, layout="bshd", q_len=33, kv_len=50, parameters="half"),
    Case("expanded keys", heads=4, kv_heads=2, layout="k_expanded", q_len=33, kv_len=35,
         parameters="five"),
    Case("odd head dims", head_dim=40, head_dim_v=80, q_len=35, kv_len=50, heads=1,
         layout="odd_stride", parameters="half"),
    Case("both offsets, scale passed", offsets=(29, 13), q_len=33, kv_len=70, heads=1,
         parameters="five", scale=0.75),
    Case("negative query positions", offsets=(-21, 0), q_len=50, kv_len=49, heads=1,
         parameters="half"),
    Case("loss through lse only", loss="lse", q_len=33, kv_len=49, heads=1),
    Case("sum of the output", loss="sum", q_len=33, kv_len=49, heads=1, tables="default"),
    Case("backward twice", check="deterministic", q_len=33, kv_len=35, parameters="half"),
    Case("merge", check="merge", heads=1, q_len=9, kv_len=9),
    _packed("packed sequences", ((0, 5), (33, 33), (1, 9), (0, 0), (50, 41), (16, 16), (17, 0)),
            parameters="five"),
    _packed("packed half precision, NaN beyond every end", ((35, 50), (0, 7), (49, 33)),
            dtype="float16", layout="nan_padded", parameters="half", tiles=WIDE_ROWS,
            tables="starts"),
)  # fmt: skip

_MORE = (
    Case("default configuration", tiles=None),
    Case("default configuration in half precision", tiles=None, dtype="float16", heads=4,
         kv_heads=2, head_dim=64, head_dim_v=64, parameters="five"),
    Case("head dim 64 and 96", head_dim=64, head_dim_v=96, heads=1, q_len=50),
    Case("head dim 96 and 64", head_dim=96, head_dim_v=64, heads=1, q_len=50, dtype="float16"),
    Case("heads without groups", heads=3, kv_heads=3, q_len=33, kv_len=101),
    Case("head dim 80", head_dim=80, head_dim_v=80, heads=1, q_len=50, parameters="half"),
    Case("head dim 24 and 8", head_dim=24, head_dim_v=8, heads=1, q_len=50, parameters="five"),
    Case("nine heads over three", heads=9, kv_heads=3, q_len=35, kv_len=49, parameters="five"),
    Case("three batches", batch=3, heads=2, kv_heads=2, parameters="half", tables="starts"),
    Case("keys sliced", layout="k_sliced", dtype="float16", heads=4, kv_heads=2, q_len=50,
         parameters="half"),
    Case("value rows apart", layout="v_rows", heads=2, kv_heads=2, q_len=50),
    Case("exact tiles", q_len=96, kv_len=96, parameters="half", tiles=WIDE_ROWS),
    Case("one past a tile", q_len=65, kv_len=65, heads=2, kv_heads=2, parameters="five"),
    Case("three queries, one key", q_len=3, kv_len=1),
    Case("one query, many keys", q_len=1, kv_len=113, parameters="half"),
    Case("many queries, few keys", q_len=113, kv_len=3, parameters="five"),
    Case("extreme tables", batch=3, tables="extreme", parameters="five"),
    Case("default tables", tables="default", parameters="half"),
    Case("large scale passed", scale=2.5, q_len=50),
    Case("large scores, small parameters", magnitude=100.0, parameters="five", dtype="float16"),
    Case("tiny scores", magnitude=1e-3, parameters="half"),
    Case("offset far away", offsets=(2**20, 2**20 - 11), q_len=35, kv_len=50, parameters="half"),
    Case("loss through the output only", loss="out", parameters="half", dtype="float16"),
    Case("filled by torch", deterministic_fill=True, q_len=83, kv_len=50, parameters="half"),
    Case("backward twice, grouped", check="deterministic", heads=4, kv_heads=2,
         parameters="half"),
    Case("two parts merged", check="split", parameters="half"),
    Case("the module's reference", check="reference", parameters="half"),
)  # fmt: skip


def cases_for(variant: Variant, device: Literal["cpu", "cuda"], level: Level) -> tuple[Case, ...]:
    """The cases of a variant on a device, cheapest problems for the interpreter on "cpu".

    Cases that differ only in parameters or tables the variant does not have are kept: they also
    differ in shape. Left out are those a variant cannot answer (a split of a table over keys).
    "shapes" are calls of every length, head dim and number of heads with the module's own
    configuration; the interpreter walks the short ones.
    """
    if level == "shapes":
        most = 2**16 if device == "cpu" else 2**31
        walk = (c for c in _SHAPES if c.q_len * c.kv_len <= most)
        # One dtype a head dim: each pair of them is compiled.
        return tuple(
            _in_bfloat16(c) if device == "cuda" and c.head_dim % 5 < 3 else c for c in walk
        )
    chosen = list(_CORE + (_MORE if level == "full" else ()))
    if device == "cuda":
        chosen += [_in_bfloat16(c) for c in chosen if c.dtype == "float16"]
        chosen += _LARGE if level == "full" else _LARGE[:4]
    return tuple(c for c in chosen if c.check != "split" or splits(variant))


def splits(variant: Variant) -> bool:
    """Whether attention over two halves of the keys, merged, is attention over all of them.

    Not with a sink (it belongs to one part only), nor where the number of keys is read.
    """
    roots = (variant.mask, variant.score)
    used = tensors_in(*roots)
    tables = [t for t in variant.tensors if t.name in used]
    shaped = {d for t in tables for d in t.shape} & {"kv_len", "total_kv"}
    named = names_in(*roots) & {"kv_len", "total_kv", "kv_token"}
    return variant.sink is None and not shaped and not named


def free_names(variant: Variant) -> set[str]:
    """Names in tensor shapes that are neither dimensions nor parameters."""
    known = {*DIMENSIONS, *(p.name for p in variant.parameters)}
    return {d for t in variant.tensors for d in t.shape if isinstance(d, str)} - known


def _in_bfloat16(case: Case) -> Case:
    return replace(case, name=f"{case.name} (bfloat16)", dtype="bfloat16")


_LARGE = [
    Case("large", batch=2, heads=4, kv_heads=2, q_len=1000, kv_len=1000, head_dim=128,
         head_dim_v=128, dtype="bfloat16", tiles=None),
    Case("large, half limits", batch=1, heads=4, kv_heads=1, q_len=1023, kv_len=1024, head_dim=64,
         head_dim_v=64, dtype="float16", tiles=None, parameters="half"),
    Case("large, NaN beyond every end", heads=4, kv_heads=2, q_len=515, kv_len=1027, head_dim=128,
         head_dim_v=128, dtype="bfloat16", tiles=None, layout="nan_padded", tables="nan_padded"),
    _packed("packed, large", ((517, 517), (0, 64), (1000, 1027), (1, 333), (64, 64), (300, 190)),
            heads=4, kv_heads=2, head_dim=128, head_dim_v=128, dtype="bfloat16", tiles=None),
    Case("large float32", heads=2, kv_heads=1, q_len=777, kv_len=1003, head_dim=64, head_dim_v=64,
         tiles=None, parameters="half"),
    Case("large scores, large", heads=4, kv_heads=4, q_len=1024, kv_len=1024, head_dim=128,
         head_dim_v=128, dtype="bfloat16", tiles=None, magnitude=100.0),
    Case("long", heads=2, kv_heads=1, q_len=4224, kv_len=4224, head_dim=128, head_dim_v=128,
         dtype="bfloat16", tiles=None),
    Case("wide heads", heads=2, kv_heads=1, q_len=600, kv_len=700, head_dim=192, head_dim_v=128,
         dtype="bfloat16", tiles=None),
    Case("head dim 256", heads=2, kv_heads=1, q_len=600, kv_len=700, head_dim=256,
         head_dim_v=256, dtype="bfloat16", tiles=None),
    Case("long keys", heads=8, kv_heads=2, q_len=128, kv_len=8192, head_dim=128, head_dim_v=128,
         dtype="bfloat16", tiles=None, parameters="half"),
    Case("backward twice, large", check="deterministic", heads=8, kv_heads=2, q_len=1000,
         kv_len=1000, head_dim=128, head_dim_v=128, dtype="bfloat16", tiles=None),
]  # fmt: skip

_LENGTHS = (
    (1, 1), (64, 128), (239, 1), (799, 3), (113, 203), (113, 211), (128, 217), (108, 256),
    (256, 113), (384, 256), (640, 128), (1023, 1024), (1024, 1023), (4224, 4224), (128, 8192),
    (0, 128), (128, 0), (1025, 1025),
)  # fmt: skip
_HEAD_DIMS = (
    *((d, d) for d in (16, 32, 40, 64, 72, 80, 96, 112, 120, 128, 160, 192, 224, 256)),
    (192, 128), (64, 128), (128, 64),
)  # fmt: skip
_HEADS = ((1, 1), (8, 8), (8, 2), (9, 3), (21, 7), (32, 8), (64, 8), (8, 1))


def _shapes() -> tuple[Case, ...]:
    """Each length with three head dims and as many numbers of heads; every one comes up."""
    made: list[Case] = []
    for index in range(3 * len(_LENGTHS)):
        (q_len, kv_len), (dim, dim_v) = _LENGTHS[index % 18], _HEAD_DIMS[index % 17]
        # Reference scores of the longest are a gigabyte and more: few heads.
        heads, kv_heads = (8, 2) if q_len * kv_len > 2**24 else _HEADS[(index + index // 18) % 8]
        name = f"{q_len} x {kv_len}, {heads}/{kv_heads} heads, head dims {dim}, {dim_v}"
        made.append(
            Case(name, 1, heads, kv_heads, q_len, kv_len, dim, dim_v, "float16", tiles=None,
                 parameters="half" if index % 2 else "default")
        )  # fmt: skip
    return (*made, Case("batch 0", 0, 8, 2, 64, 128, 64, 64, "float16", tiles=None))


_SHAPES = _shapes()
