"""The configs that modules take by default fit the GPUs that they are for."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

from fagen.codegen.configs import CONFIGS, READING, ROLES, TUNED
from fagen.codegen.plan import plan_module
from fagen.codegen.render import module_text, render
from fagen.codegen.signature import column_chunks, constexprs, default_row, signature
from fagen.device.defaults import HARDEST, MOST_SPILLED, compile_defaults, complaint, line
from fagen.device.gpus import ARCHITECTURES
from fagen.device.outcome import Resources, Result
from fagen.device.resources import Shape, default_builds
from fagen.spec.load import find_variant, load_variant, shipped_names

#: One GPU of each size of shared memory and of each instruction set; `make defaults` takes all.
SLICE = [
    ("softcap", "sm_80", Shape("bf16", 128)),
    ("softcap", "sm_90", Shape("bf16", 256)),
    ("softcap", "sm_120", Shape("fp32", 64)),
    ("document", "sm_86", Shape("bf16", 64)),
    ("document", "gfx942", Shape("bf16", 128)),
    ("document", "gfx950", Shape("fp32", 128)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "target", "shape"), SLICE)
def test_defaults_fit(variant, target, shape):
    built = list(compile_defaults(variant, [target], [shape], workers=2))
    assert {b.role for b, _ in built} >= {"forward", "prep", "dkdv", "dq"}
    assert not [line(variant, b, r) for b, r in built if complaint(b, r)]


def test_what_counts_as_bad():
    used = Resources(1024, 255, MOST_SPILLED, 8, 1, 128)
    worse = replace(used, spilled=MOST_SPILLED + 1)
    guessed, tuned = default_builds(["dkdv"], "all", ["sm_80", "sm_90"], [Shape("bf16", 64)])
    assert complaint(guessed, Result("ok", "", used)) == ""
    assert complaint(guessed, Result("spilled", "spills", used)) == ""
    assert complaint(guessed, Result("spilled", "spills", worse)) == "spills"
    assert complaint(tuned, Result("spilled", "spills", worse)) == ""
    for build in (guessed, tuned):
        assert complaint(build, Result("too_much_shared", "many", worse)) == "too_much_shared: many"
        assert complaint(build, Result("compile_failed", "why")) == "compile_failed: why"


@pytest.fixture(scope="module", params=("full", "causal", "document"))
def module_and_visits(request, tmp_path_factory):
    variant = load_variant(find_variant(request.param))
    path = tmp_path_factory.mktemp("rendered") / f"{request.param}.py"
    path.write_text(render(variant))
    spec = importlib.util.spec_from_file_location(f"defaults_{request.param}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, plan_module(variant).visits


def test_the_module_takes_the_same_row(module_and_visits, monkeypatch):
    """What is compiled here is what a call would launch there."""
    module, visits = module_and_visits
    for target, facts in ARCHITECTURES.items():
        kib = facts.shared_per_block // 1024
        monkeypatch.setattr(module, "shared_kib", lambda device, kib=kib: kib)
        module.default_config.cache_clear()
        for role in ROLES:
            for itemsize in (2, 4):
                for width in (16, 64, 65, 80, 128, 129, 256, 257, 576):
                    row = default_row(role, visits, kib, itemsize, width)
                    chosen = module.default_config(role, target, itemsize, width)
                    taken = (row.block_m, row.block_n, row.num_warps, row.num_stages)
                    assert tuple(chosen) == taken, (target, role, itemsize, width)
    module.default_config.cache_clear()


def test_chunks_as_in_the_module(module_and_visits):
    module, _ = module_and_visits
    for width in range(1, 700):
        chunks = column_chunks(width)
        assert chunks == module.column_chunks(width)
        assert sum(chunks) >= width > sum(chunks) - 32 or width < 32
        assert all(c & (c - 1) == 0 and c >= 32 for c in chunks)


def test_every_row_is_of_use():
    """Each is the first that applies for some GPU, element and width."""
    for role in ROLES:
        used = {
            visits: {
                default_row(role, visits, facts.shared_per_block // 1024, itemsize, width)
                for facts in ARCHITECTURES.values()
                for itemsize in (2, 4)
                for width in (64, 96, 128, 256, 512)
            }
            for visits in ("all", "some", "few", "reads")
        }
        assert set(READING.get(role, ())) <= used.pop("reads")
        assert set(CONFIGS[role]) <= set().union(*used.values())
        for visits, rows in used.items():
            assert set(TUNED.get((role, visits), ())) <= rows


POINTERS = {"int32": "*i32", "float32": "*fp32", "bfloat16": "*bf16", "bool": "*u1"}


@pytest.mark.parametrize("name", shipped_names())
def test_signatures_are_complete(name):
    """Every argument has a type or a value, in the kernel's order."""
    variant = load_variant(find_variant(name))
    plan = plan_module(variant)
    tables = {t.name: t for t in variant.tensors}
    for kernel in module_text(plan).kernels:
        types = signature(kernel, variant, "bf16")
        (build,) = default_builds([kernel.role], plan.visits, ["sm_90"], [Shape("bf16", 80, 64)])
        values = constexprs(kernel, build.row, 80, 64, fast_tanh=True)
        assert sorted([*types, *values]) == sorted(a.name for a in kernel.arguments)
        assert all("tl.constexpr" in a.declaration for a in kernel.arguments if a.name in values)
        for name_, kind in types.items():
            pointer = name_.removesuffix("_ptr")
            if pointer in tables:
                assert kind == POINTERS[tables[pointer].dtype]
            elif name_ in ("q_ptr", "k_ptr", "v_ptr", "out_ptr", "dout_ptr", "dq_ptr"):
                assert kind == "*bf16"
            elif name_ in ("lse_ptr", "dlse_ptr", "row_state_ptr"):
                assert kind == "*fp32"
        assert values.get("CHUNKS", (64, 32)) == (64, 32)
        assert values.get("CHUNKS_V", (64,)) == (64,)


def test_the_hardest_are_shipped():
    assert set(HARDEST) <= set(shipped_names())
