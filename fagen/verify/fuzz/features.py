"""What a trial exercised beyond the grammar: decisions of its plan, properties of its call."""

from __future__ import annotations

from fagen.analysis.axes import axes_of
from fagen.analysis.walk import Test, Walk
from fagen.codegen.kernel_plan import KernelPlan
from fagen.codegen.plan import ModulePlan
from fagen.codegen.signature import column_chunks
from fagen.spec.expr import FALSE, TRUE, is_const, post_order
from fagen.verify.cases import Case

PLAN = (
    "no mask", "one segment", "two segments", "three or more segments", "tests", "no tests",
    "gate", "residual", "full tiles", "never full tiles", "row extremes", "program values",
    "row vectors", "head values", "streamed vectors", "element lines", "element reads",
    "row term", "post_scale", "sign checked at the call", "score ignores q.k", "slope varies",
    "slope constant", "no slope", "sink", "guarded reads", "64-bit ints", "fast", "exact",
    "by distance",
)  # fmt: skip
CALL = (
    "grouped heads", "one head each", "head_dim chunks", "head_dim_v differs", "q_len != kv_len",
    "more queries than keys", "strides", "offsets", "scale passed", "several batches", "half",
    "no queries or keys", "run-time values", "empty rows", "unseen keys", "all pairs live",
    "few pairs live", "packed sequences",
)  # fmt: skip


def plan_features(plan: ModulePlan) -> list[str]:
    found = ["no mask"] if plan.lowered.mask is TRUE else []
    found += ["by distance"] if plan.tabulate is not None else []
    kernels = (plan.forward, plan.dkdv, plan.dq)
    for walk in plan.walks.values():
        found += _of_walk(walk)
    for kernel in kernels:
        found += _of_kernel(kernel)
    roots = [plan.lowered.mask, plan.lowered.score]
    for node in post_order(*roots):
        if node.op == "read" and {"q", "kv"} <= axes_of(node):
            found.append("element reads")
    tile = plan.tile
    found.append("no slope" if is_const(plan.slope, 0.0) else _slope(plan))
    for label, holds in (
        ("row term", not is_const(tile.row_term, 0.0)),
        ("post_scale", not is_const(tile.post_scale, 1.0)),
        ("sign checked at the call", tile.scale_must_be_positive),
        ("score ignores q.k", not tile.reads_qk),
        ("sink", plan.lowered.sink is not None),
        (plan.variant.accuracy, True),
    ):
        found += [label] if holds else []
    return sorted(set(found))


def _slope(plan: ModulePlan) -> str:
    return "slope constant" if not axes_of(plan.slope) else "slope varies"


def _of_walk(walk: Walk) -> list[str]:
    count = len(walk.segments)
    found = ["one segment" if count == 1 else "two segments" if count == 2 else
             "three or more segments"]  # fmt: skip
    tested = any(isinstance(step, Test) for step in walk.steps)
    found.append("tests" if tested else "no tests")
    found.append("full tiles" if walk.full else "never full tiles")
    for segment in walk.segments:
        if segment.gate_may is not TRUE or segment.gate_must is FALSE:
            found.append("gate")
        if segment.residual is not TRUE:
            found.append("residual")
        ends = [e for e in (segment.lo, segment.hi, segment.full_lo, segment.full_hi) if e]
        if any(n.op in ("row_min", "row_max") for n in post_order(*ends)):
            found.append("row extremes")
    return found


def _of_kernel(kernel: KernelPlan) -> list[str]:
    found = []
    lines = [*kernel.program_lines, *kernel.head_lines]
    for loop in kernel.loops:
        lines += [*loop.tile_lines, *loop.lines]
        found += ["streamed vectors"] * bool(loop.tile_lines)
        found += ["element lines"] * bool(loop.lines)
    found += ["head values"] * bool(kernel.head_lines)
    for line in kernel.program_lines:
        vector = "q_idx" in line or "kv_idx" in line
        found.append("row vectors" if vector else "program values")
    text = "\n".join(lines)
    found += ["guarded reads"] * ("mask=" in text or "load_streamed(" in text)
    found += ["64-bit ints"] * (".to(tl.int64)" in text)
    return found


def call_features(case: Case) -> list[str]:
    """Those that the case alone tells."""
    width = case.head_dim
    told = {
        "grouped heads": case.heads > case.kv_heads > 0,
        "one head each": case.heads == case.kv_heads,
        "head_dim chunks": len(column_chunks(width)) > 1,
        "head_dim_v differs": case.head_dim_v != width,
        "q_len != kv_len": case.q_len != case.kv_len,
        "more queries than keys": case.q_len > case.kv_len,
        "strides": case.layout != "contiguous" or case.loss == "sum",
        "offsets": case.offsets != (None, 0),
        "scale passed": case.scale is not None,
        "several batches": case.batch > 1,
        "half": case.dtype != "float32",
        "no queries or keys": 0 in (case.q_len, case.kv_len, case.batch),
        "run-time values": bool(case.values),
        "packed sequences": case.lengths is not None,
    }
    return [label for label, holds in told.items() if holds]
