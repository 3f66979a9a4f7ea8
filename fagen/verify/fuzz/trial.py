"""One trial, from the text of a variant to the gradients of its kernels, in this process."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from fagen.codegen.load import load_module
from fagen.codegen.plan import plan_module
from fagen.codegen.render import render_plan
from fagen.spec.errors import SpecErrors
from fagen.spec.variant import Variant
from fagen.verify.checks import run_case
from fagen.verify.dense import dense
from fagen.verify.fuzz.features import call_features, plan_features
from fagen.verify.fuzz.outcomes import Outcome, Stage, Trial
from fagen.verify.fuzz.settled import is_settled
from fagen.verify.inputs import Inputs, draw
from fagen.verify.packed import Sequence, draw_packed
from fagen.verify.reference import Setting, blocks, masked_scores

Alter = Callable[[str], str]
#: What a module's own dense function may differ by in float64, beside its float32 constants.
DENSE_TOLERANCE = 1e-5


def run_trial(trial: Trial, alter: Alter | None = None) -> Outcome:
    """The outcome; nothing is raised but what ends a process.

    `alter` changes the module's text before it is imported, to see whether that is noticed.
    """
    started = time.perf_counter()
    stage: list[Stage] = ["spec"]
    features: list[str] = []
    try:
        outcome = _run(trial, alter, stage, features)
    except Exception as error:
        outcome = Outcome("crashed", stage[0], _said(error))
    seconds = time.perf_counter() - started
    return Outcome(
        outcome.verdict, outcome.stage, outcome.message, tuple(sorted(set(features))),
        outcome.worst, seconds,
    )  # fmt: skip


def _run(trial: Trial, alter: Alter | None, stage: list[Stage], features: list[str]) -> Outcome:
    case, device, seed = trial.case, trial.device, trial.seed
    with tempfile.TemporaryDirectory(prefix="fagen-fuzz-") as scratch:
        folder = Path(scratch)
        try:
            variant = trial.draft.load(folder)
        except SpecErrors as errors:
            return Outcome("refused", "spec", errors.diagnostics[0].message)
        stage[0] = "render"
        plan = plan_module(variant)
        text = render_plan(plan)
        features += [*plan_features(plan), *call_features(case)]
        stage[0] = "import"
        module = import_text(text if alter is None else alter(text), variant, folder)
    stage[0] = "call"
    result = run_case(variant, module, case, device, seed)
    parts: list[Inputs | Sequence] = []
    if case.lengths is None:
        parts.append(draw(variant, case, device, seed))
    else:
        parts += draw_packed(variant, case, device, seed).sequences
    for part in parts:
        features += pair_features(part.setting, part.exact)
    if result.outcome != "ok":
        settled = all(is_settled(part, case) for part in parts)
        return Outcome("wrong" if settled else "unsettled", "call", result.message)
    stage[0] = "reference"
    for part in parts:
        # A packed sequence's own positions cannot be told to a dense function.
        if isinstance(part, Inputs) and (fault := dense_fault(module, part)):
            settled = is_settled(part, case)
            return Outcome("wrong" if settled else "unsettled", "reference", fault)
    return Outcome("ok", worst=result.worst)


def import_text(text: str, variant: Variant, folder: Path) -> ModuleType:
    path = folder / f"{variant.name}.py"
    path.write_text(text, encoding="utf-8")
    return load_module(path)


def pair_features(setting: Setting, exact) -> list[str]:
    """What the mask left of the pairs."""
    q, k = exact[:2]
    mask = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.bool, device=q.device)
    for block in blocks(setting):
        box = (block.batch, block.heads, block.rows)
        mask[box] = masked_scores(setting, block, q.new_zeros(mask[box].shape))[1]
    if mask.numel() == 0:
        return []
    share = float(mask.double().mean())
    told = {
        "empty rows": not mask.any(-1).all(),
        "unseen keys": not mask.any(-2).all(),
        "all pairs live": share == 1.0,
        "few pairs live": share < 0.05,
    }
    return [label for label, holds in told.items() if holds]


def dense_fault(module: ModuleType, inputs: Inputs) -> str:
    """The module's own dense function, in float64, against the truth."""
    q, k, v, grad_out, grad_lse = (x.clone() for x in inputs.exact)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    out, lse = module.reference(q, k, v, return_lse=True, **inputs.keywords)
    pairs = [(x, g) for x, g in ((out, grad_out), (lse, grad_lse)) if x.requires_grad]
    if pairs:
        torch.autograd.backward(*zip(*pairs, strict=True))
    truth = dense(inputs.setting, *inputs.exact).values
    found = {"out": out.detach(), "lse": lse.detach(), "dq": q.grad, "dk": k.grad, "dv": v.grad}
    for name, value in found.items():
        expected = truth[name]
        value = torch.zeros_like(expected) if value is None else value
        if value.shape != expected.shape:
            return f"reference: {name} has shape {list(value.shape)}"
        size = float(torch.nan_to_num(expected, posinf=0.0, neginf=0.0).abs().sum()) + 1.0
        close = torch.isclose(value.double(), expected, rtol=DENSE_TOLERANCE,
                              atol=DENSE_TOLERANCE * min(size, 1e3))  # fmt: skip
        if not close.all():
            place = tuple(int(i) for i in (~close).nonzero()[0])
            return (
                f"reference: {name} at {place}: {float(value[place]):.9g} instead of "
                f"{float(expected[place]):.9g}"
            )
    return ""


def _said(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-4:]]
    text = str(error).strip()
    first = text.split("\n")[-1][:300] if "\n" in text else text[:300]
    return f"{type(error).__name__}: {first}\nat {' > '.join(where)}\n{text[:1500]}"
