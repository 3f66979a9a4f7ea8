"""`fagen explain`: what the variant costs for one problem, given by options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fagen.analysis.cost import Cost, Problem, cost
from fagen.analysis.relaxed import at_most
from fagen.cli.problems import UserError
from fagen.cli.tables import tables_of
from fagen.codegen.signature import BYTES, Dtype
from fagen.spec.errors import did_you_mean
from fagen.spec.expr import tensors_in
from fagen.spec.names import DIMENSIONS
from fagen.spec.variant import SCORE, Parameter, Variant


@dataclass(frozen=True)
class Costs:
    """`cost` counts a pair as live where `unknown` tables, not given, decide it.

    `tables_counted` is False where what is not given is too: its bytes are left out.
    """

    problem: Problem
    dtype: Dtype
    cost: Cost
    unknown: tuple[str, ...] = ()
    tables_counted: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "problem": {**asdict(self.problem), "dtype": self.dtype},
            **{key: value for key, value in asdict(self.cost).items() if key != "exact"},
            "density": self.cost.density,
            "pairs_are": "at most" if self.unknown or not self.cost.exact else "exact",
            "unknown_tables": list(self.unknown),
            "tables_counted": self.tables_counted,
        }


def problem_of(
    batch: int,
    heads: int,
    kv_heads: int | None,
    q_len: int,
    kv_len: int | None,
    head_dim: int,
    head_dim_v: int | None,
    dtype: Dtype,
) -> Problem:
    """A problem; what is None is as its counterpart.

    Raises UserError for what no module takes: impossible heads, and lengths past 2**28.
    """
    for option, value, power in (
        ("--batch", batch, 20),
        ("--heads", heads, 20),
        ("--kv-heads", kv_heads, 20),
        ("--q-len", q_len, 28),
        ("--kv-len", kv_len, 28),
        ("--head-dim", head_dim, 20),
        ("--head-dim-v", head_dim_v, 20),
    ):
        if value is not None and value > 2**power:
            raise UserError(f"`{option}` must be at most 2**{power}, got {value}", "")
    try:
        return Problem(
            batch=batch,
            heads=heads,
            kv_heads=kv_heads or heads,
            q_len=q_len,
            kv_len=q_len if kv_len is None else kv_len,
            head_dim=head_dim,
            head_dim_v=head_dim_v or head_dim,
            dtype_bytes=BYTES[dtype],
        )
    except ValueError as error:
        raise UserError(str(error), "change `--heads` or `--kv-heads`") from None


def costs(
    variant: Variant,
    problem: Problem,
    dtype: Dtype,
    settings: Sequence[str] = (),
    tables: Sequence[str] = (),
) -> Costs:
    """The cost under `settings` ("window=1024") and `tables` ("doc=FILE.npy"); raises UserError."""
    parameters = dict(_setting(variant, text) for text in settings)
    given = tables_of(variant, tables, _lengths(variant, problem, parameters))
    lacking = {t.name for t in variant.tensors if t.default is None} - given.keys()
    unknown = tuple(sorted(lacking & tensors_in(variant.mask)))
    counted = replace(variant, mask=at_most(variant.mask, lacking | _unbound(variant, lacking)))
    try:
        found = cost(counted, problem, parameters, given, limited=True)
        return Costs(problem, dtype, found, unknown, not unknown)
    except KeyError:
        # The length of a table is the caller's to choose, and no table says it.
        bare = replace(counted, score=SCORE, sink=None)
        found = cost(bare, problem, parameters, given, limited=True)
        return Costs(problem, dtype, found, unknown, False)


def _unbound(variant: Variant, lacking: set[str]) -> set[str]:
    """Lengths that only tables which are not given would tell."""
    axes = {str(a) for t in variant.tensors if t.name in lacking for a in t.shape}
    told = {str(a) for t in variant.tensors if t.name not in lacking for a in t.shape}
    return axes - told - {*DIMENSIONS, *(p.name for p in variant.parameters)}


def _lengths(variant: Variant, p: Problem, parameters: dict[str, Any]) -> dict[str, Any]:
    """What names in the shapes of tables are for a call; names of the user's own are missing."""
    return {
        "batch": p.batch, "heads": p.heads, "kv_heads": p.kv_heads, "q_len": p.q_len,
        "kv_len": p.kv_len, "head_dim": p.head_dim, "total_q": p.q_len, "total_kv": p.kv_len,
        **{parameter.name: parameter.default for parameter in variant.parameters}, **parameters,
    }  # fmt: skip


def _setting(variant: Variant, text: str) -> tuple[str, int | float | bool]:
    word, _, value = text.partition("=")
    known = {p.name: p for p in variant.parameters}
    parameter = known.get(word.strip())
    if parameter is None:
        hint = did_you_mean(word, known) or f"it has {', '.join(known) or 'none'}"
        raise UserError(f"`{variant.name}` has no parameter `{word}`", hint)
    number = _number(parameter, value.strip())
    low, high = parameter.bounds
    if not low <= number <= high:
        raise UserError(f"`{word}` must be from {low} to {high}, got {number}", "")
    return parameter.name, number


def _number(parameter: Parameter, value: str) -> int | float | bool:
    try:
        if parameter.type == "bool":
            return {"true": True, "false": False}[value.lower()]
        return int(value) if parameter.type == "int" else float(value)
    except (ValueError, KeyError):
        message = f"`{parameter.name}` must be {parameter.type}, got `{value}`"
        raise UserError(message, f"such as `--set {parameter.name}={parameter.default}`") from None
