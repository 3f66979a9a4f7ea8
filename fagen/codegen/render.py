"""Plan -> source text. The only place that knows Jinja."""

from __future__ import annotations

import functools
import hashlib
import textwrap
from dataclasses import replace

import jinja2

from fagen import __version__
from fagen.codegen.arguments import candidates, used_in
from fagen.codegen.kernel_text import KernelText
from fagen.codegen.module_text import ModuleText
from fagen.codegen.plan import ModulePlan, plan_module
from fagen.shipped import folder
from fagen.spec.variant import Variant

HASH_PLACE = "@" * 12


def _block(text: str, margin: int = 0) -> str:
    """A macro's text without its last newline, moved right by `margin`."""
    return textwrap.indent(text.strip("\n"), " " * margin)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["block"] = _block
    return environment


def render(variant: Variant) -> str:
    """The module of a variant: the same variant gives the same bytes."""
    return render_plan(plan_module(variant))


def render_plan(plan: ModulePlan) -> str:
    """The module of a plan; its content hash is taken over everything but itself."""
    text = _environment().get_template("module.jinja").render(plan=plan, module=module_text(plan))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return text.replace(HASH_PLACE, digest)


def module_text(plan: ModulePlan) -> ModuleText:
    """The kernels as text and the texts of everything round them."""
    forward = _environment().get_template("fa2/forward.jinja").module
    backward = _environment().get_template("fa2/backward.jinja").module
    walks = _environment().get_template("fa2/walk_kernel.jinja").module
    keys, queries = plan.walks["forward"].stream, plan.walks["dkdv"].stream
    bodies = {}
    if plan.tabulate:
        bodies["tabulate"] = (
            _environment()
            .get_template("fa2/tabulate.jinja")
            .module.tabulate(  # type: ignore[attr-defined]
                plan.tabulate
            )
        )
    if plan.query_walk:
        bodies["query_walk"] = walks.walk_of_queries(plan.query_walk, keys)  # type: ignore[attr-defined]
    bodies |= {
        "forward": forward.forward(plan.forward, keys),  # type: ignore[attr-defined]
        "prep": backward.prep(),  # type: ignore[attr-defined]
        "dkdv": backward.dkdv(plan.dkdv, queries),  # type: ignore[attr-defined]
    }
    if plan.key_walk:
        bodies["key_walk"] = walks.walk_of_keys(plan.key_walk, queries)  # type: ignore[attr-defined]
    if plan.dq.trains_qk:
        bodies["dq"] = backward.dq(plan.dq, keys)  # type: ignore[attr-defined]
    kernels = tuple(_kernel(role, str(body), plan.lowered) for role, body in bodies.items())
    return ModuleText(plan, __version__, kernels, HASH_PLACE)


def _kernel(role: str, body: str, variant: Variant) -> KernelText:
    body = body.strip("\n")
    arguments = tuple(used_in(candidates(role, variant), body))
    kernel = KernelText(f"{role}_kernel", role, arguments, body)
    text = _environment().get_template("kernel.jinja").render(kernel=kernel)
    return replace(kernel, text=text.strip("\n"))
