"""Runs one case against a module and says what came of it."""

from __future__ import annotations

import math
import time
from types import ModuleType

import torch

from fagen.spec.variant import Variant
from fagen.verify.cases import Case
from fagen.verify.dense import dense
from fagen.verify.inputs import Inputs, draw, gradients
from fagen.verify.judge import judge
from fagen.verify.packed import packed_attention
from fagen.verify.poison import filled_by_torch, poisoned
from fagen.verify.report import CaseResult
from fagen.verify.yardstick import budget, tile_of

#: The dense PyTorch of a module evaluates in float32 or so; it is read more than it is run.
REFERENCE_TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def run_case(
    variant: Variant, module: ModuleType, case: Case, device: str, seed: int
) -> CaseResult:
    """The case's result; an exception of the module propagates."""
    started = time.perf_counter()
    if case.lengths is not None:
        measures, message = packed_attention(
            variant, module, case, device, seed, _configuration(module, case)
        )
        return CaseResult(
            case.name, "wrong" if message else "ok", measures, message,
            time.perf_counter() - started,
        )  # fmt: skip
    inputs = draw(variant, case, device, seed)
    if case.check == "merge":
        measures, message = (), _merge_fault(module, case, device, seed)
    elif case.check == "reference":
        measures, message = (), _reference_fault(module, case, inputs)
    else:
        measures, message = _attention(module, case, inputs, seed)
    outcome = "wrong" if message else "ok"
    seconds = time.perf_counter() - started
    return CaseResult(case.name, outcome, measures, message, seconds)  # type: ignore[arg-type]


def _attention(module: ModuleType, case: Case, inputs: Inputs, seed: int):
    before = [_bits(x) for x in inputs.given]
    with filled_by_torch() if case.deterministic_fill else poisoned():
        found = _call(module, case, inputs)
        if case.check == "split":
            found.update(_halves(module, case, inputs))
        again = _call(module, case, inputs) if case.check == "deterministic" else found
    for name, x, bits in zip(("q", "k", "v", "grad_out", "grad_lse"), inputs.given, before,
                             strict=True):  # fmt: skip
        if not torch.equal(_bits(x), bits):
            return (), f"the call changed its input {name}"
    dtype = getattr(torch, case.dtype)
    allowed = budget(inputs.setting, *inputs.exact, dtype=dtype, seed=seed, tile=tile_of(case))
    measures, message = judge(found, allowed)
    for name in found:
        if not message and not torch.equal(_bits(found[name]), _bits(again[name])):
            message = f"{name}: two runs differ in their bits"
    return measures, message


def _call(module: ModuleType, case: Case, inputs: Inputs) -> dict[str, torch.Tensor]:
    """out, lse, dq, dk, dv as the module computes them."""
    q, k, v, grad_out, grad_lse = inputs.given
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    extra = _configuration(module, case)
    if case.check == "deterministic":
        extra["deterministic"] = True
    if case.loss in ("out", "sum"):
        out = module.attention(q, k, v, **inputs.keywords, **extra)
        if case.loss == "sum":
            out.sum().backward()
        else:
            out.backward(grad_out)
        with torch.no_grad():
            _, lse = module.attention(q, k, v, return_lse=True, **inputs.keywords, **extra)
    else:
        out, lse = module.attention(q, k, v, return_lse=True, **inputs.keywords, **extra)
        if case.loss == "lse":
            torch.autograd.backward([lse], [grad_lse])
        else:
            torch.autograd.backward([out, lse], [grad_out, grad_lse])
    return {"out": out.detach(), "lse": lse.detach(), **gradients(q, k, v)}


def _configuration(module: ModuleType, case: Case) -> dict:
    if case.tiles is None:
        return {}
    return {
        # A module whose score ignores q.k has no kernel for dq.
        "config": {
            role: module.Config(block_m, block_n, 4, 2)
            for role, block_m, block_n in case.tiles
            if role in module.ROLES
        }
    }


def _halves(module: ModuleType, case: Case, inputs: Inputs) -> dict[str, torch.Tensor]:
    """out and lse from two calls, each over some of the keys, merged by the module."""
    q, k, v = inputs.given[:3]
    cut = case.kv_len // 3
    shared = {**inputs.keywords, "q_offset": inputs.setting.q_offset, "return_lse": True,
              **_configuration(module, case)}  # fmt: skip
    shared.pop("kv_offset", None)
    start = inputs.setting.kv_offset
    with torch.no_grad():
        first = module.attention(q, k[:, :, :cut], v[:, :, :cut], kv_offset=start, **shared)
        rest = module.attention(q, k[:, :, cut:], v[:, :, cut:], kv_offset=start + cut, **shared)
        out, lse = module.merge(*first, *rest)
    return {"out": out, "lse": lse}


def _merge_fault(module: ModuleType, case: Case, device: str, seed: int) -> str:
    """Two random states and two with empty rows, against the formula in float64."""
    generator = torch.Generator().manual_seed(seed)
    shape = (max(1, case.batch), case.heads, case.q_len)
    outs = [torch.randn(*shape, 16, generator=generator).to(device) for _ in range(2)]
    lses = [5.0 * torch.randn(shape, generator=generator).to(device) for _ in range(2)]
    for index, rows in ((0, (0, 2)), (1, (1, 2))):
        for row in rows:
            lses[index][..., row] = -math.inf
            outs[index][..., row, :] = 0.0
    out, lse = module.merge(outs[0], lses[0], outs[1], lses[1])
    states = torch.stack([x.double() for x in lses])
    expected = torch.logsumexp(states, 0)
    weights = torch.where(states == -math.inf, 0.0, (states - expected).exp())
    wanted = sum(w.unsqueeze(-1) * o.double() for w, o in zip(weights, outs, strict=True))
    for name, found, truth in (("out", out, wanted), ("lse", lse, expected)):
        if found.shape != truth.shape:
            return f"merge: {name} has shape {list(found.shape)}, not {list(truth.shape)}"
        if not torch.allclose(found.double(), truth, rtol=1e-5, atol=1e-6):
            return f"merge: {name} differs from the formula (NaN included)"
    return ""


def _reference_fault(module: ModuleType, case: Case, inputs: Inputs) -> str:
    """The module's own dense function against the truth, forward and backward."""
    q, k, v, grad_out, grad_lse = inputs.given
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out, lse = module.reference(q, k, v, return_lse=True, **inputs.keywords)
    # The lse of a score that ignores q.k depends on none of them.
    pairs = [(x, g.to(x.dtype)) for x, g in ((out, grad_out), (lse, grad_lse)) if x.requires_grad]
    torch.autograd.backward([x for x, _ in pairs], [g for _, g in pairs])
    truth = dense(inputs.setting, *inputs.exact).values
    tolerance = REFERENCE_TOLERANCE[case.dtype]
    found = {"out": out, "lse": lse, **gradients(q, k, v)}
    for name, value in found.items():
        if value.shape != truth[name].shape:
            return f"reference: {name} has the wrong shape"
        if not torch.allclose(value.detach().double(), truth[name], rtol=tolerance, atol=tolerance):
            return f"reference: {name} differs from float64"
    return ""


def _bits(x: torch.Tensor) -> torch.Tensor:
    """A copy that compares NaN by its bits."""
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.detach().clone(memory_format=torch.contiguous_format).view(kind)
