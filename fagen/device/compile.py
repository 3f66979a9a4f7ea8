"""Compiles a Triton kernel for a GPU that need not be there, and says what it would take.

Works with Triton 3.6 to 3.9. Nothing is launched, and the user's Triton cache is neither read nor
written. A compiler that crashes takes its process along: `pool.compile_many` isolates it.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fagen.device.gpus import Architecture, architecture
from fagen.device.noise import captured
from fagen.device.outcome import Resources, Result
from fagen.device.registers import from_amdgcn, from_ptxas
from fagen.device.target import triton_target

Index = tuple[int, ...]
#: Characters of a compiler's complaint that are kept; its end, where the reason stands.
DETAIL_LENGTH = 4000


def compile_kernel(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    target: str,
    *,
    num_warps: int = 4,
    num_stages: int = 2,
    aligned: Collection[str] | None = None,
    options: Mapping[str, object] | None = None,
    spill_limit: int = 0,
    log: Path | None = None,
) -> Result:
    """Compiles `kernel` (a function under `@triton.jit`) for `target`, such as "sm_90" or "gfx942".

    `signature` gives Triton's type of each run-time argument ("*bf16", "i32", "fp32"), `constexprs`
    the value of each compile-time one; those with a default may be left out. `aligned` names the
    pointers and integers that are multiples of 16; by default all that a launch would look at
    (not `do_not_specialize`), as for contiguous tensors of the usual widths. `options` are further
    options of the backend (`maxnreg`, `waves_per_eu`). What the compiler prints goes to `log`.

    The outcome is "ok", "compile_failed", "too_much_shared" (any limit of a block, named in the
    detail) or "spilled" (more than `spill_limit` bytes a thread); the last two come with resources.
    Raises UnknownGpu for an unknown target and ValueError where an argument of the kernel is
    missing, unknown, or given twice.
    """
    limits = architecture(target)
    types, constants = _arguments(kernel, signature, constexprs)
    attributes = _attributes(kernel, types, aligned)
    settings: dict[str, object] = {
        # Triton 3.10 changes the default: the figures, and the numerics, must not follow it.
        "enable_fp_fusion": True,
        "num_warps": num_warps,
        "num_stages": num_stages,
        **(options or {}),
    }
    with captured(log) as output:
        try:
            resources = _compile(kernel, types, constants, attributes, limits, settings)
        # Triton raises whatever its passes raise: RuntimeError, AssertionError, KeyError, ...
        except Exception as error:
            return Result("compile_failed", _detail(error, output))
    return judge(resources, limits, spill_limit)


def judge(resources: Resources, limits: Architecture, spill_limit: int = 0) -> Result:
    """The outcome of a kernel that compiled: does a block fit, and do its values fit registers?"""
    excess = resources.excess(limits)
    if excess is not None:
        return Result("too_much_shared", excess, resources)
    if resources.spilled > spill_limit:
        return Result("spilled", f"spills {resources.spilled} bytes a thread", resources)
    return Result("ok", "", resources)


def _arguments(
    kernel: Any, signature: Mapping[str, str], constexprs: Mapping[str, object]
) -> tuple[dict[str, str], dict[Index, object]]:
    """Types by name in the kernel's order, and the compile-time values by position."""
    if not hasattr(kernel, "params"):
        raise ValueError(
            f"{kernel!r} is not a compiled Triton kernel; under TRITON_INTERPRET=1 there is none"
        )
    names = [parameter.name for parameter in kernel.params]
    for given in (*signature, *constexprs):
        if given not in names:
            close = get_close_matches(given, names, n=1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise ValueError(f"`{kernel.__name__}` has no argument `{given}`{hint}")
    types: dict[str, str] = {}
    constants: dict[Index, object] = {}
    for position, parameter in enumerate(kernel.params):
        name = parameter.name
        if signature.get(name, "constexpr") != "constexpr":
            if name in constexprs:
                raise ValueError(f"`{name}` of `{kernel.__name__}` has both a type and a value")
            types[name] = signature[name]
            continue
        types[name] = "constexpr"
        if name in constexprs:
            constants[(position,)] = constexprs[name]
        elif parameter.has_default:
            constants[(position,)] = parameter.default
        else:
            raise ValueError(f"`{name}` of `{kernel.__name__}` has neither a type nor a value")
    return types, constants


def _attributes(
    kernel: Any, types: Mapping[str, str], aligned: Collection[str] | None
) -> dict[Index, list[list[object]]]:
    """The divisibility that a launch with aligned arguments would tell the compiler."""
    if aligned is not None:
        for name in aligned:
            if not _may_be_aligned(types.get(name, "")):
                raise ValueError(f"`{name}` cannot be aligned: no pointer or integer argument")
    return {
        (position,): [["tt.divisibility", 16]]
        for position, parameter in enumerate(kernel.params)
        if _may_be_aligned(types[parameter.name])
        and (
            parameter.name in aligned
            if aligned is not None
            else not (parameter.do_not_specialize or parameter.do_not_specialize_on_alignment)
        )
    }


def _may_be_aligned(type: str) -> bool:
    return type.startswith("*") or type in ("i32", "i64", "u32", "u64")


def _compile(
    kernel: Any,
    types: dict[str, str],
    constants: dict[Index, object],
    attributes: dict[Index, list[list[object]]],
    limits: Architecture,
    settings: Mapping[str, object],
) -> Resources:
    import triton
    from triton.compiler import ASTSource

    printed = io.StringIO()
    with _own_cache(), redirect_stdout(printed):
        compiled = triton.compile(
            ASTSource(kernel, types, constants, attributes),
            target=triton_target(limits.target),
            options=dict(settings),
        )
    if limits.vendor == "nvidia":
        registers = from_ptxas(printed.getvalue())
        binary = compiled.asm["cubin"]
    else:
        registers = from_amdgcn(compiled.asm["amdgcn"])
        binary = compiled.asm["hsaco"]
    return Resources(
        shared=compiled.metadata.shared,
        registers=registers.registers,
        spilled=registers.spilled,
        stack=registers.stack,
        binary=len(binary),
        threads=compiled.metadata.num_warps * limits.warp_size,
        tensor_memory=getattr(compiled.metadata, "tmem_size", None) or 0,
        scalar_spills=registers.scalar_spills,
        serialised=registers.serialised,
    )


@contextmanager
def _own_cache() -> Iterator[None]:
    """An empty Triton cache for the time of one compilation, and ptxas' report on stdout.

    The report is that of the very run which made the binary: Triton's options to ptxas differ
    between versions, and a second run with others would report other registers.
    """
    from triton import knobs

    with (
        tempfile.TemporaryDirectory(prefix="fagen-triton-") as folder,
        knobs.cache.scope(),
        knobs.nvidia.scope(),
    ):
        knobs.cache.dir = folder
        knobs.nvidia.dump_ptxas_log = True
        yield


def _detail(error: Exception, output: Path) -> str:
    """The error's own text, after what the compiler printed from C++ (MLIR's diagnostics)."""
    noise = output.read_text(errors="replace").strip()
    text = str(error).strip()
    if not isinstance(error, RuntimeError) or not text:
        text = f"{type(error).__name__}: {text}"
    return f"{noise}\n{text}".strip()[-DETAIL_LENGTH:]
