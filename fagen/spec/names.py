"""The names every expression may use, and the axes each depends on.

Axes: "b" (batch), "h" (query head), "q" (query position), "kv" (key position).
`score` is the scaled product of one query and one key and depends on all four.
"""

from __future__ import annotations

from dataclasses import dataclass

Axes = frozenset[str]
AXES: tuple[str, ...] = ("b", "h", "q", "kv")


@dataclass(frozen=True)
class IndexName:
    axes: Axes
    meaning: str
    type: str = "int"


def _axes(*axes: str) -> Axes:
    return frozenset(axes)


INDEX_NAMES: dict[str, IndexName] = {
    "score": IndexName(_axes("b", "h", "q", "kv"), "scaled q.k, natural units", "float"),
    "b": IndexName(_axes("b"), "sequence of the batch"),
    "h": IndexName(_axes("h"), "query head"),
    "kv_h": IndexName(_axes("h"), "key/value head of the query head"),
    "q_idx": IndexName(_axes("q"), "position of the query"),
    "kv_idx": IndexName(_axes("kv"), "position of the key"),
    "q_row": IndexName(_axes("q"), "row of q, from 0"),
    "q_token": IndexName(_axes("q"), "position in the packed q; the row when dense"),
    "kv_token": IndexName(_axes("kv"), "position in the packed k; the column when dense"),
    "q_len": IndexName(_axes(), "queries of this sequence"),
    "kv_len": IndexName(_axes(), "keys of this sequence"),
    "batch": IndexName(_axes(), "sequences"),
    "heads": IndexName(_axes(), "query heads"),
    "kv_heads": IndexName(_axes(), "key/value heads"),
    "head_dim": IndexName(_axes(), "width of q and k"),
    "total_q": IndexName(_axes(), "rows of the packed q"),
    "total_kv": IndexName(_axes(), "rows of the packed k"),
}

#: Lengths that a tensor's shape may name.
DIMENSIONS = (
    "batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "total_q", "total_kv",
)  # fmt: skip

#: The name that runs along a dimension, for default expressions of tensors.
INDEX_OF_DIMENSION = {
    "batch": "b",
    "heads": "h",
    "kv_heads": "kv_h",
    "q_len": "q_row",
    "kv_len": "kv_idx",
    "total_q": "q_token",
    "total_kv": "kv_token",
}

#: Largest magnitude of a position, an offset or an int parameter without a declared bound: a sum of
#: a few such values stays inside int32.
INDEX_LIMIT = 2**28

#: Largest magnitude of a float parameter and of the scale: a product of two, or of one and any
#: constant that is no larger, stays inside float32.
FLOAT_LIMIT = 2.0**100

#: Names that the generated `attention`, `reference`, their operators and launchers have for
#: purposes of their own, and words of an operator's schema: no parameter, tensor or length may bear
#: them. A tensor becomes an argument of kernels too, with `_ptr` behind its name.
RESERVED = frozenset({
    "Backward", "Ellipsis", "Forward", "NAMESPACE", "NUMBERS", "NoneType", "WHOLE", "any",
    "as_batch", "attention_varlen", "backward_op", "below_autograd", "block_count", "block_table",
    "blocks", "bool", "by_distance", "cache_seqlens", "cast_by_autocast", "check_inputs",
    "check_matrices", "check_number", "check_options", "check_order", "check_packing",
    "check_promises", "check_range", "check_table", "checks_promises", "chosen_config",
    "column_chunks", "config", "configs", "ctx", "cu_seqlens_k", "cu_seqlens_q", "delta",
    "deterministic", "device", "dk", "dkdv_kernel", "dlse", "dout", "dq", "dq_kernel", "dtype",
    "dv", "empty_like_heads", "fake_backward", "fake_forward", "flat_config", "forward_kernel",
    "forward_op", "gap_first", "gap_range", "gaps", "grad", "grads", "has_fast_tanh", "head_dim_v",
    "int", "isinstance", "k", "k_cache", "key_walk_kernel", "keys", "kv_offset", "launch_backward",
    "launch_forward", "list", "locate", "lse", "lse2", "made_once", "math", "max_seqlen_k",
    "max_seqlen_q", "new_gradients", "no_key", "operands", "os", "out", "partition", "prep_kernel",
    "programs", "q", "q_offset", "query_walk_kernel", "return_lse", "row_length", "row_state",
    "scale", "sequences", "sink", "sizes", "table_at", "tabulate_kernel", "tabulated", "torch",
    "triton", "tuple", "v", "v_cache", "values", "walk", "wanted", "wants", "wants_dkdv",
    "wants_dq", "weights", "with_dense_rows", "x", "zip",
})  # fmt: skip
#: Those of kernels, where parameters and lengths stand as they are and tensors as pointers.
RESERVED_IN_KERNELS = frozenset({
    "BLOCK_M", "BLOCK_N", "CHUNKS", "CHUNKS_V", "FAST_TANH", "HAS_DLSE", "HEAD_DIM", "HEAD_DIM_V",
    "MASKED_STAGES", "PACKED", "RUNTIME_INTS", "TILES_AT_ONCE", "acc", "accumulate", "blocks",
    "column", "correction", "dk_head", "dout_head", "dp", "dq_head", "ds", "dv_head", "end",
    "first", "floor_div", "floor_mod", "full", "full_count", "full_first", "full_stop", "gap",
    "group", "head_of", "i", "inside", "inverse", "k_head", "kv_block", "kv_column", "kv_first",
    "kv_hi", "kv_in_range", "kv_lo", "kv_start", "len", "live", "live_first", "live_stop",
    "load_row_state", "load_streamed", "load_tile", "locate", "masked", "masked_count", "matrix",
    "may", "member", "multiply", "must", "new_max", "next_tile", "online_softmax_update",
    "out_head", "p", "place", "program", "q_block", "q_first", "q_head", "q_hi", "q_in_range",
    "q_lo", "q_start", "qk", "row_base", "row_offsets", "rows", "running_max", "running_sum",
    "saturate", "scale_tile", "scores", "shift", "slot", "smaller_end", "some", "step", "stop",
    "store_tile", "sure", "sure_count", "sure_first", "sure_stop", "swap", "tile", "tl", "unbroken",
    "v_head", "visited", "walk", "zero_tile",
})  # fmt: skip
#: Words of the function that Triton writes around a kernel's arguments, and of its own options.
RESERVED_BY_LAUNCH = frozenset({
    "backend", "debug", "fpsan_homomorphic_casts", "instrumentation_mode", "num_stages",
    "num_warps", "options", "params", "specialization", "specialize_impl",
})  # fmt: skip
#: Characters of a name: it becomes a file's name, and a part of others.
LONGEST_NAME = 100
#: Families of such names: pointers and strides, makers of tables, parts of sums, ends of walks.
RESERVED_FORMS = (
    r"\w+_ptr", r"\w+_stride_\w+", r"default_\w+", r"t\d+",
    r"(first|stop|end|full_first|full_stop|masked_count|full_count)_\w+",
)  # fmt: skip
