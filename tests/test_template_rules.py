"""Decide in the plan, print in Jinja: the rules of templates, on their syntax trees.

A template prints names, walks prepared lists, tests flags and calls macros. It computes nothing.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

ROOT = Path(__file__).resolve().parent.parent
DEEPEST = 2

#: Everything a template may be made of; what is not here (set, arithmetic, `~`, tests, slices,
#: inline `if`, `do`, ...) is a decision that belongs into the plan.
ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.TemplateData),
    *(nodes.Name, nodes.Getattr, nodes.Const, nodes.Not, nodes.Call, nodes.Keyword),
    *(nodes.If, nodes.For, nodes.Macro, nodes.CallBlock),
    *(nodes.Import, nodes.FromImport, nodes.Include),
)
#: Filters that move text and do not make any; `block` is render's, which sets lines at a depth.
LAYOUT = {"indent", "block"}


def complaints(source: str) -> list[str]:
    """One line for each breach of the rules in a template, with its line number."""
    tree = Environment().parse(source)
    found: list[str] = []
    _walk(tree, 0, _macros(tree), found)
    return found


def _macros(tree: nodes.Template) -> tuple[set[str], set[str]]:
    """Names that may be called: macros, and the aliases of files full of macros."""
    names = {macro.name for macro in tree.find_all(nodes.Macro)} | {"caller"}
    for statement in tree.find_all(nodes.FromImport):
        names |= {n if isinstance(n, str) else n[1] for n in statement.names}
    return names, {statement.target for statement in tree.find_all(nodes.Import)}


def _is_path(node: nodes.Node) -> bool:
    """A name, or attributes of one."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return isinstance(node, nodes.Name)


def _walk(node: nodes.Node, depth: int, macros: tuple[set[str], set[str]], found: list[str]):
    def complain(what: str) -> None:
        found.append(f"{node.lineno}: {what}")

    if isinstance(node, nodes.Macro):
        depth = 0
    if isinstance(node, nodes.If | nodes.For):
        depth += 1
        if depth > DEEPEST:
            complain(f"nested deeper than {DEEPEST}")
    parts = list(node.iter_child_nodes())
    if isinstance(node, nodes.If):
        test = node.test.node if isinstance(node.test, nodes.Not) else node.test
        if not _is_path(test):
            complain("`if` on more than a flag of the plan")
        # An `elif` is a node inside its `if`, but reads on the same level.
        for branch in node.elif_:
            _walk(branch, depth - 1, macros, found)
            parts.remove(branch)
    elif isinstance(node, nodes.For):
        targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
        if not all(isinstance(target, nodes.Name) for target in targets):
            complain("`for` with a nested target")
        if not _is_path(node.iter) or node.test is not None or node.recursive:
            complain("`for` over more than a prepared list")
        parts.remove(node.target)
    elif isinstance(node, nodes.Call):
        names, files = macros
        called = node.node
        if not (isinstance(called, nodes.Name) and called.name in names) and not (
            isinstance(called, nodes.Getattr)
            and isinstance(called.node, nodes.Name)
            and called.node.name in files
        ):
            complain("a call of something that is no macro")
        values = [*node.args, *(keyword.value for keyword in node.kwargs)]
        if not all(_is_path(value) or isinstance(value, nodes.Const) for value in values):
            complain("a macro's argument is computed")
    elif isinstance(node, nodes.Filter | nodes.FilterBlock):
        name = node.name if isinstance(node, nodes.Filter) else node.filter.name
        if name not in LAYOUT:
            complain(f"filter `{name}`")
    elif not isinstance(node, ALLOWED):
        complain(f"`{type(node).__name__}` is not allowed")
    for part in parts:
        _walk(part, depth, macros, found)


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{% set x = y %}", "`Assign`"),
        ("{% set x %}text{% endset %}", "`AssignBlock`"),
        ("{{ a + 1 }}", "`Add`"),
        ("{{ -a }}", "`Neg`"),
        ("{{ a ~ b }}", "`Concat`"),
        ("{{ a | join(', ') }}", "filter `join`"),
        ("{% filter upper %}a{% endfilter %}", "filter `upper`"),
        ("{{ a[0] }}", "`Getitem`"),
        ("{{ a if b else c }}", "`CondExpr`"),
        ("{{ [a, b] }}", "`List`"),
        ("{% if a == b %}{% endif %}", "`Compare`"),
        ("{% if a and b %}{% endif %}", "`And`"),
        ("{% if a is defined %}{% endif %}", "`Test`"),
        ("{% if a.b() %}{% endif %}", "`if` on more"),
        ("{% if a %}{% elif b > 1 %}{% endif %}", "`if` on more"),
        ("{% for x in a.items() %}{% endfor %}", "`for` over more"),
        ("{% for x in a if x %}{% endfor %}", "`for` over more"),
        ("{% for x in range(3) %}{% endfor %}", "no macro"),
        ("{{ namespace(a=1) }}", "no macro"),
        ("{{ name.upper() }}", "no macro"),
        ("{% macro m(x) %}{% endmacro %}{{ m(a + b) }}", "computed"),
        ("{% if a %}{% for b in c %}{% if d %}{% endif %}{% endfor %}{% endif %}", "nested deeper"),
        ("{% if a %}{% if b %}{% else %}{% if c %}{% endif %}{% endif %}{% endif %}", "nested"),
        ("{% if a %}{% elif b %}{% if c %}{% if d %}{% endif %}{% endif %}{% endif %}", "nested"),
    ],
)
def test_a_breach_is_seen(template, complaint):
    assert complaint in " ".join(complaints(template))


@pytest.mark.parametrize(
    "template",
    [
        "{{ a }} {{ a.b.c }}",
        "{% if a %}{% elif not b.c %}{% else %}{% endif %}",
        "{% if a %}{% if b %}x{% elif c %}y{% else %}z{% endif %}{% endif %}",
        "{% for x in plan.lines %}{% if loop.first %}{{ x }}{% endif %}{% endfor %}",
        "{% for name, type in plan.arguments %}{{ name }}{% endfor %}",
        "{% macro m(x, y) %}{{ x }}{% endmacro %}{{ m(a.b, y='text') | indent(4) }}",
        "{% import 'a.jinja' as steps %}{{ steps.softmax(plan) }}",
        "{% from 'a.jinja' import softmax as step %}{{ step(plan) }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ a }}{% endcall %}",
    ],
)
def test_what_is_allowed_passes(template):
    assert complaints(template) == []


def test_the_templates_keep_the_rules():
    templates = sorted((ROOT / "templates").rglob("*.jinja"))
    assert templates
    found = {
        f"{path.relative_to(ROOT)}:{complaint}"
        for path in templates
        for complaint in complaints(path.read_text())
    }
    assert not found


def test_one_strict_environment():
    calls = [
        call
        for path in sorted((ROOT / "fagen").rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "Environment"
    ]
    assert len(calls) == 1
    undefined = {k.arg: ast.unparse(k.value).split(".")[-1] for k in calls[0].keywords}
    assert undefined.get("undefined") == "StrictUndefined"
