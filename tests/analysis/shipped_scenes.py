"""A call of every shipped variant for the walks: parameters and tables in proportion to length."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scene import Scene

from fagen.codegen.lower import dense
from fagen.spec.load import find_variant, load_variant
from fagen.spec.variant import Variant

BATCH, HEADS, KV_HEADS = 2, 4, 2
#: Parameters for a sequence of some 200 tokens and tiles of some 16.
PARAMETERS = {
    "window": 40, "n_sink": 5, "left": 30, "right": 9, "reach": 25, "dilation": 3, "chunk": 48,
    "period": 64, "width": 8, "height": 25, "kernel": 3, "tile_size": 16, "frames": 3, "block": 16,
}  # fmt: skip
#: Where a name stands for something else than above.
OWN = {
    "neighborhood_2d": {"width": 16, "height": 13, "kernel": 5},
    "sliding_tile_2d": {"width": 4, "height": 4},
    "sliding_tile_3d": {"tile_size": 4, "width": 4, "height": 4, "frames": 4},
}


@cache
def variant(name: str) -> Variant:
    """As the kernels see it."""
    return dense(load_variant(find_variant(name)))


def scene_of(name: str, seed: int, **names: int) -> Scene:
    """Lengths and tiles may be passed; tables are drawn."""
    loaded, values = variant(name), np.random.default_rng(seed)
    sizes = {"q_len": 208, "kv_len": 208, "BLOCK_M": 16, "BLOCK_N": 16, **names}
    at_end = sizes["kv_len"] - sizes["q_len"] if loaded.position == "end" else 0
    known = {
        "batch": BATCH, "heads": HEADS, "kv_heads": KV_HEADS, "b": seed % BATCH,
        "h": seed % HEADS, "kv_h": seed % HEADS // (HEADS // KV_HEADS),
        "q_offset": at_end, "kv_offset": 0, **sizes,
        **{p.name: p.default for p in loaded.parameters},
        **{p.name: PARAMETERS[p.name] for p in loaded.parameters if p.name in PARAMETERS},
        **OWN.get(name, {}),
    }  # fmt: skip
    tables = TABLES[name](values, known) if name in TABLES else {}
    for table in loaded.tensors:
        if table.name in tables:
            shape = tables[table.name].shape
            known |= {n: s for n, s in zip(table.shape, shape, strict=True) if isinstance(n, str)}
    return Scene(known, tables)


def _documents(values: np.random.Generator, known: dict) -> np.ndarray:
    length = known["kv_len"]
    cuts = np.sort(values.integers(0, length + 1, (BATCH, 4)), axis=1)
    return (np.arange(length)[None, :, None] >= cuts[:, None, :]).sum(-1).astype(np.int32)


def _starts(doc: np.ndarray) -> np.ndarray:
    """The first position of documents 0 to 4 of each sequence; of one without tokens, any."""
    return np.stack([(doc < i).sum(1) for i in range(5)], axis=1).astype(np.int32)


def _sinks(values: np.random.Generator, known: dict) -> dict[str, np.ndarray]:
    doc = _documents(values, known)
    return {"doc": doc, "start": _starts(doc)}


def _blocks(values: np.random.Generator, known: dict) -> dict[str, np.ndarray]:
    count = -(-known["kv_len"] // known["block"])
    return {"live": values.random((BATCH, HEADS, count, count)) < 0.3}


def _tree(values: np.random.Generator, known: dict) -> dict[str, np.ndarray]:
    nodes = known["q_len"]
    parent = np.array([-1, *(values.integers(0, i) for i in range(1, nodes))])
    ancestor = np.eye(nodes, dtype=bool)
    for node in range(1, nodes):
        ancestor[node] |= ancestor[parent[node]]
    prefix = np.full(BATCH, max(known["kv_len"] - nodes, 0), np.int32)
    return {"prefix": prefix, "ancestor": np.stack([ancestor] * BATCH)}


def _packed(values: np.random.Generator, known: dict) -> dict[str, np.ndarray]:
    words = -(-known["kv_len"] // 32)
    drawn = values.integers(-(2**31), 2**31, (BATCH, known["q_len"], words))
    return {"packed": drawn.astype(np.int32)}


def _globals(values: np.random.Generator, known: dict) -> dict[str, np.ndarray]:
    marked = np.zeros((BATCH, known["kv_len"]), bool)
    marked[:, :3] = True
    return {"is_global": marked}


def _lengths(name: str) -> Callable[[np.random.Generator, dict], dict[str, np.ndarray]]:
    return lambda values, known: {
        name: values.integers(0, known["kv_len"] + 1, BATCH).astype(np.int32)
    }


def _doc_start(values: np.random.Generator, known: dict) -> dict[str, np.ndarray]:
    doc = _documents(values, known)
    return {"doc_start": np.take_along_axis(_starts(doc), doc.astype(np.int64), 1)}


TABLES: dict[str, Callable[[np.random.Generator, dict], dict[str, np.ndarray]]] = {
    "document": lambda values, known: {"doc": _documents(values, known)},
    "document_full": lambda values, known: {"doc": _documents(values, known)},
    "shared_prefix": lambda values, known: {"doc": _documents(values, known)},
    "document_sinks_window": _sinks,
    "packed_causal": _doc_start,
    "prefix_lm": _lengths("prefix"),
    "key_padding": _lengths("valid"),
    "block_map": _blocks,
    "tree_causal": _tree,
    "bit_packed": _packed,
    "global_window": _globals,
}
