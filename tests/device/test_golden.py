"""Golden modules compile for every architecture, with both ends of the Triton range."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fagen.codegen.plan import plan_module
from fagen.codegen.render import module_text
from fagen.device.resources import Shape, compile_builds, default_builds
from fagen.spec.load import find_variant, load_variant

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EVERYWHERE = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "gfx942")
TWO = ("sm_90", "gfx942")
#: Tests of tiles and tables in the loop; a derivative that varies; a term of the row and a default.
THREE = ("document", "gemma2_local", "alibi")
SHAPE = Shape("bf16", 64)


@pytest.fixture(scope="module", params=["installed", "newest"])
def triton_path(request):
    return None if request.param == "installed" else request.getfixturevalue("newest_triton")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.py")))
def test_every_kernel_compiles(name, triton_path):
    variant = load_variant(find_variant(name))
    plan = plan_module(variant)
    kernels = module_text(plan).kernels
    targets = EVERYWHERE if name in THREE else TWO
    builds = default_builds([k.role for k in kernels], plan.visits, targets, [SHAPE])
    module = GOLDEN / f"{name}.py"
    results = compile_builds(variant, kernels, module, builds, workers=2, triton_path=triton_path)
    bad = {
        (build.role, build.target): (result.outcome, result.detail)
        for build, result in zip(builds, results, strict=True)
        if result.outcome not in ("ok", "spilled")
    }
    assert not bad and len(results) >= 4 * len(targets)
    # A loop's count or tile read from memory must not keep products from overlapping.
    assert not [r.resources.serialised for r in results if r.resources and r.resources.serialised]


def test_products_that_wait_for_each_other_are_told(tmp_path):
    """Counts as they are loaded, bounded by nothing, are such a case (ptxas says C7515)."""
    text = (GOLDEN / "document.py").read_text()
    loose = re.sub(r"tl\.maximum\((tl\.load\(walk \+ \d\)), \w+\)", r"\1", text)
    assert loose != text
    module = tmp_path / "document.py"
    module.write_text(loose)
    variant = load_variant(find_variant("document"))
    plan = plan_module(variant)
    builds = default_builds(["forward"], plan.visits, ["sm_90"], [SHAPE])
    [result] = compile_builds(variant, module_text(plan).kernels, module, builds, workers=1)
    assert result.ok and len(result.resources.serialised) == 1
