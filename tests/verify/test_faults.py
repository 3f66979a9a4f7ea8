"""One line of a correct module broken at a time: the quick level must notice every fault."""

import sys
from types import ModuleType

import pytest
import torch
from standin_variant import STANDIN, VARIANT

from fagen.verify.cases import cases_for
from fagen.verify.checks import run_case

SEED = 11

#: name -> (the stand-in's text, what takes its place)
FAULTS = {
    "last rows unwritten": (
        "for start in range(0, q_len, block_m):",
        "for start in range(0, q_len - q_len % block_m, block_m):",
    ),
    "last keys unwritten": (
        "for start in range(0, k.shape[2], block_n):",
        "for start in range(0, k.shape[2] - k.shape[2] % block_n, block_n):",
    ),
    "the first query's gradient unwritten": (
        "dq[:] = (scale * (ds @ keys))",
        "dq[:, :, 1:] = (scale * (ds @ keys))[:, :, 1:]",
    ),
    "the last query's gradient unwritten": (
        "dq[:] = (scale * (ds @ keys))",
        "dq[:, :, :-1] = (scale * (ds @ keys))[:, :, :-1]",
    ),
    "one key too many": ("(distance < window)", "(distance <= window)"),
    "one key too few": ("(distance < window)", "(distance < window - 1)"),
    "own key missing": ("(distance >= 0)", "(distance > 0)"),
    "no causal bound": ("(distance >= 0) & ", ""),
    "window baked in": ("(distance < window)", "(distance < 11)"),
    "cap baked in": ("scale / cap)\n    score = cap *", "scale / 50.0)\n    score = 50.0 *"),
    "scale baked in": ("if scale is None:", "if True:"),
    "lse to base 2": (
        "= top + torch.log(total)",
        "= (top + torch.log(total)) * 1.4426950408889634",
    ),
    "lse without the maximum": ("= top + torch.log(total)", "= torch.log(total)"),
    "lse of empty rows is +inf": (
        "= top + torch.log(total)",
        "= torch.where(total == 0, math.inf, top + torch.log(total))",
    ),
    "lse of empty rows is finite": (
        "= top + torch.log(total)",
        "= top + torch.log(total).clamp(min=-1e30)",
    ),
    "empty rows divide by zero": ("/ safe[..., None]", "/ total[..., None]"),
    "empty rows average V": (
        "/ safe[..., None]).to",
        "/ safe[..., None] + (total == 0)[..., None] * spread(v, heads).mean(2, True)).to",
    ),
    "no maximum subtracted": (
        "            top = torch.where(top == -math.inf, 0.0, top)",
        "            top = torch.zeros_like(top)",
    ),
    "NaN through the tail of V": (
        "(p.to(q.dtype).float() @ values",
        "(torch.nn.functional.pad(p, (0, 1)).to(q.dtype).float() @ beyond(values, v)",
    ),
    "NaN through the tail of K": (
        "_, ds = recompute(slice(None), 0)",
        "_, ds = recompute(slice(None), 0)\n"
        "        ds = torch.nn.functional.pad(ds, (0, 1))\n"
        "        keys = beyond(keys, k)",
    ),
    "strides of K ignored": (
        "keys, values = spread(k, heads), spread(v, heads)\n        for",
        "keys, values = spread(packed(k), heads), spread(v, heads)\n        for",
    ),
    "strides of V ignored in the backward": (
        "keys, values = spread(k, heads), spread(v, heads)\n        queries",
        "keys, values = spread(k, heads), spread(packed(v), heads)\n        queries",
    ),
    "strides of grad_out ignored": (
        "queries, upstream = q.float(), grad_out.float()",
        "queries, upstream = q.float(), packed(grad_out).float()",
    ),
    "heads paired with the wrong keys": (
        "x.float().repeat_interleave(heads // x.shape[1], 1)",
        "x.float().repeat(1, heads // x.shape[1], 1, 1)",
    ),
    "slope of the next head": ("slopes[:, None, None]", "slopes.roll(1)[:, None, None]"),
    "default slopes forgotten": ("(h + 1)", "h"),
    "dk without scale": ("part_k = scale *", "part_k ="),
    "dk scaled twice": ("part_k = scale *", "part_k = scale * scale *"),
    "dq without scale": ("dq[:] = (scale * (", "dq[:] = (1.0 * ("),
    "dk of one head of the group": (
        "part_k.unflatten(1, (-1, group)).sum(2)",
        "part_k.unflatten(1, (-1, group))[:, :, 0]",
    ),
    "dv averaged over the group": (
        "part_v.unflatten(1, (-1, group)).sum(2)",
        "part_v.unflatten(1, (-1, group)).mean(2)",
    ),
    "gradient of lse dropped": (".sum(-1) - grad_lse", ".sum(-1)"),
    "gradient of lse added": (".sum(-1) - grad_lse", ".sum(-1) + grad_lse"),
    "delta forgotten": ("(upstream * out.float()).sum(-1) - grad_lse", "-grad_lse"),
    "derivative of the cap forgotten": ("1 - tanh * tanh", "torch.ones_like(tanh)"),
    "derivative of the cap not squared": ("1 - tanh * tanh", "1 - tanh"),
    "empty rows leak in the backward": (
        "finite = torch.where(lse == -math.inf, 0.0, lse)",
        "finite = lse",
    ),
    "start aligned": ("q_offset = k.shape[2] - q.shape[2]", "q_offset = 0"),
    "q_offset ignored": ("if q_offset is None:", "if True:"),
    "kv_offset ignored": ("scale, q_offset, kv_offset, config\n", "scale, q_offset, 0, config\n"),
    "kv_offset ignored in the backward": ("kv_offset + start", "start"),
    "tile offset forgotten in the backward": ("kv_offset + start,", "kv_offset,"),
    "half-precision accumulation": (
        "(p.to(q.dtype).float() @ values",
        "((p.half() @ values.half()).float()",
    ),
    "coarse products": (
        "q @ k.mT",
        "q.bfloat16().float() @ k.bfloat16().float().mT",
    ),
    "coarse dS": ("ds.to(q.dtype).float()", "ds.bfloat16().float()"),
    "out in float32": (
        "return (out, lse) if return_lse else out",
        "return (out.float(), lse) if return_lse else out.float()",
    ),
    "lse in the inputs' dtype": (
        "return (out, lse) if",
        "return (out, lse.to(q.dtype)) if",
    ),
    "q changed in place": (
        "queries, upstream = q.float()",
        "queries, upstream = q.mul_(1).add_(1)",
    ),
    "not deterministic": (
        "dq[:] = (scale",
        "dq[:] = ((1 + 2e-7 * torch.rand_like(queries)) * scale",
    ),
    "merge of empty states is NaN": (
        "finite = torch.where(lse == -math.inf, 0.0, lse)\n    weight",
        "finite = lse\n    weight",
    ),
    "merge averages": ("weight_a * out_a + weight_b * out_b", "(out_a + out_b) / 2"),
    "fails without keys": ("scores.amax(-1) if k.shape[2] else", "scores.amax(-1) if True else"),
}

HELPERS = '''

def beyond(x, source):
    """x with the row that lies behind it in memory, where there is one."""
    last = source.storage_offset() + source.shape[2] * source.stride(2)
    wanted = last + sum((n - 1) * s for n, s in zip(source.shape, source.stride()) if n) + 1
    tail = x.new_zeros(*x.shape[:2], 1, x.shape[3])
    if source.numel() and wanted <= source.untyped_storage().nbytes() // source.element_size():
        shape = (*source.shape[:2], 1, source.shape[3])
        tail = spread(source.as_strided(shape, source.stride(), last), x.shape[1])
    return torch.cat([x, tail], 2)


def packed(x):
    """x read as if it were contiguous from its first element."""
    strides = torch.empty(x.shape, device="meta").stride()
    need = x.storage_offset() + x.numel()
    if need > x.untyped_storage().nbytes() // x.element_size():
        return x
    return x.as_strided(x.shape, strides, x.storage_offset())
'''


def module_from(text: str) -> ModuleType:
    module = ModuleType("standin_under_test")
    sys.modules[module.__name__] = module
    exec(compile(text, str(STANDIN), "exec"), module.__dict__)
    return module


def first_failure(module: ModuleType, level: str):
    """The first case that is not ok and what was said; None when all pass."""
    for index, case in enumerate(cases_for(VARIANT, "cpu", level)):
        try:
            result = run_case(VARIANT, module, case, "cpu", SEED + index)
        except Exception as error:
            return case.name, f"{type(error).__name__}: {error}"
        if result.outcome != "ok":
            return case.name, result.message
    return None


@pytest.mark.parametrize("seed", [0, 1000])
def test_the_correct_module_passes_every_case(seed):
    module = module_from(STANDIN.read_text())
    for index, case in enumerate(cases_for(VARIANT, "cpu", "full")):
        result = run_case(VARIANT, module, case, "cpu", seed + index)
        assert result.outcome == "ok", (case.name, result.message)
        assert result.worst <= 1.0


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_caught(fault):
    text, old_new = STANDIN.read_text(), FAULTS[fault]
    assert old_new[0] in text, "the stand-in changed: this fault breaks nothing any more"
    found = first_failure(module_from(text.replace(*old_new) + HELPERS), "quick")
    assert found is not None, f"no quick case notices: {fault}"
    # A fault that raised would have been found by anyone.
    assert ("Error: " in found[1]) == (fault == "fails without keys"), found


def test_the_last_failure_left_torch_as_it_was():
    assert not torch.isnan(torch.empty(3).fill_(1.0)).any()
    assert torch.empty.__name__ == "empty" and not hasattr(torch.empty, "__wrapped__")
