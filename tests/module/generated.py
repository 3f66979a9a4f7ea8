"""Generated modules for these tests: rendered once a process, imported, called and judged."""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fagen.codegen.render import render
from fagen.spec.load import find_variant, load_text, load_variant
from fagen.spec.variant import Variant
from fagen.verify.reference import attention_reference

SHIPPED = (
    "full", "causal", "sliding_window", "alibi", "softcap", "prefix_lm", "document",
    "sinks_window", "gemma2_local",
)  # fmt: skip
QUANTITIES = ("out", "lse", "dq", "dk", "dv")
#: Relative error, in the Frobenius norm and of the largest element; `verify` is stricter.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

Values = dict[str, torch.Tensor]


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fagen-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def import_source(source: str, name: str) -> ModuleType:
    """A module of this source under this name; a second import of a name is a second module."""
    path = _folder() / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def shipped(name: str) -> Variant:
    return load_variant(find_variant(name))


@functools.cache
def module(name: str) -> ModuleType:
    """The module of a shipped variant."""
    return import_source(render(shipped(name)), f"generated_{name}")


@functools.cache
def written(text: str) -> tuple[Variant, ModuleType]:
    """Variant and module of a YAML text without `name`."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    variant = load_text(f"name: written\n{text}\n")
    return variant, import_source(render(variant), f"generated_{digest}")


def tiles(module: ModuleType, block_m: int = 16, block_n: int = 32) -> dict[str, Any]:
    """`config=` of one small tile size for every role."""
    return dict.fromkeys(module.ROLES, module.Config(block_m, block_n, 4, 1))


def tables(name: str, batch: int, kv_len: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    """The tables that a shipped variant demands, drawn without randomness."""
    column = torch.arange(kv_len, device=device)
    if name == "prefix_lm":
        lengths = torch.arange(batch, device=device) * 7 + kv_len // 3
        return {"prefix": lengths.to(torch.int32)}
    if name == "document":
        # Squares: documents of 1, 3, 5, ... tokens, shifted from sequence to sequence.
        shift = torch.arange(batch, device=device)[:, None] * 5
        return {"doc": (column + shift).sqrt().floor().to(torch.int32)}
    return {}


def inputs(
    batch: int, heads: int, kv_heads: int, q_len: int, kv_len: int, head_dim: int,
    head_dim_v: int | None = None, dtype: torch.dtype = torch.float32, device: str = "cpu",
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """q, k, v of standard normal values that require gradients."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (batch, heads, q_len, head_dim),
        (batch, kv_heads, kv_len, head_dim),
        (batch, kv_heads, kv_len, head_dim_v or head_dim),
    )
    q, k, v = (
        torch.randn(s, generator=generator).to(device, dtype).requires_grad_() for s in shapes
    )
    return q, k, v


def with_gradients(attend, q, k, v, *, seed: int = 1, loss: str = "both") -> Values:
    """out, lse and the gradients of a random loss through them ("out", "lse" or "both").

    `attend(q, k, v)` returns out and lse.
    """
    out, lse = attend(q, k, v)
    generator = torch.Generator().manual_seed(seed)
    dout = torch.randn(out.shape, generator=generator).to(out.device)
    dlse = torch.randn(lse.shape, generator=generator).to(out.device)
    outputs, grads = [], []
    if loss in ("out", "both"):
        outputs, grads = [out], [dout.to(out.dtype)]
    if loss in ("lse", "both"):
        outputs, grads = [*outputs, lse], [*grads, dlse.to(lse.dtype)]
    pairs = [(x, g) for x, g in zip(outputs, grads, strict=True) if x.requires_grad]
    outputs, grads = (list(x) for x in zip(*pairs, strict=True))
    found = torch.autograd.grad(outputs, (q, k, v), grads, allow_unused=True)
    filled = (
        torch.zeros_like(x) if g is None else g for x, g in zip((q, k, v), found, strict=True)
    )
    values = dict(zip(QUANTITIES, (out.detach(), lse.detach(), *filled), strict=True))
    return values


def truth(
    variant: Variant, q, k, v, *, seed: int = 1, loss: str = "both", scale=None, q_offset=None,
    kv_offset: int = 0, **keywords,
) -> Values:  # fmt: skip
    """What `with_gradients` must give, in float64, by the verifier's reference."""
    exact = tuple(x.detach().double().requires_grad_() for x in (q, k, v))
    is_table = {t.name for t in variant.tensors}.__contains__

    def attend(q, k, v):
        return attention_reference(
            variant, q, k, v, scale=scale, q_offset=q_offset, kv_offset=kv_offset,
            tensors={n: x for n, x in keywords.items() if is_table(n)},
            parameters={n: x for n, x in keywords.items() if not is_table(n)},
        )  # fmt: skip

    return with_gradients(attend, *exact, seed=seed, loss=loss)


def assert_close(found: Mapping[str, torch.Tensor], expected: Values, tolerance: float) -> None:
    """Equal infinities, no NaN, and errors within the tolerance."""
    for name, value in found.items():
        want = expected[name].double()
        assert value.shape == want.shape, f"{name}: {list(value.shape)} not {list(want.shape)}"
        value = value.double()
        assert not value.isnan().any(), f"{name} holds NaN"
        assert torch.equal(value.isinf(), want.isinf()), f"{name}: other infinities"
        finite = want.isfinite()
        assert torch.equal(value[~finite], want[~finite]), f"{name}: other infinities"
        value, want = value[finite], want[finite]
        if want.numel() == 0:
            continue
        error = value - want
        size = max(want.norm().item(), 1e-2 * want.numel() ** 0.5)
        share = error.norm().item() / size
        assert share <= tolerance, f"{name}: relative error {share:.2e} above {tolerance:.0e}"
        top = max(want.abs().max().item(), 1e-2)
        worst = error.abs().max().item() / top
        assert worst <= 4 * tolerance, f"{name}: largest error {worst:.2e} of the largest value"


def check(
    variant: Variant, module: ModuleType, q, k, v, *, config=None, loss: str = "both", **keywords
) -> Values:
    """Forward and backward of the module against float64; returns what the module gave."""

    def attend(q, k, v):
        return module.attention(q, k, v, return_lse=True, config=config, **keywords)

    found = with_gradients(attend, q, k, v, loss=loss)
    assert found["out"].dtype == q.dtype and found["lse"].dtype == torch.float32
    assert_close(found, truth(variant, q, k, v, loss=loss, **keywords), TOLERANCE[q.dtype])
    return found
