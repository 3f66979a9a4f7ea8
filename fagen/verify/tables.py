"""Parameters and tables of a case, drawn from nothing but what the variant declares."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fagen.spec.names import DIMENSIONS
from fagen.spec.variant import Parameter, Tensor, Variant
from fagen.verify.cases import Case, free_names

#: What a free name in a tensor's shape is bound to: odd, and shorter than the sequences.
FREE_LENGTH = 37

#: Written around a padded int table: reading it sends any mask or index astray.
INT_POISON = {torch.uint8: 201, torch.int8: -99, torch.int16: 20011}
WIDE_INT_POISON = 1_000_003


def parameter_values(variant: Variant, case: Case) -> dict[str, int | float | bool]:
    """Values of the case's choice that differ from the defaults, within the declared bounds."""
    found = {}
    for parameter in variant.parameters:
        value = _value(parameter, case)
        if value != parameter.default:
            found[parameter.name] = value
    return found


def _value(parameter: Parameter, case: Case) -> int | float | bool:
    for name, value in case.values:
        if name == parameter.name:
            return value
    choice = case.parameters
    if choice == "default":
        return parameter.default
    if parameter.type == "bool":
        return not parameter.default if choice in ("smallest", "half") else parameter.default
    wanted: int | float
    if parameter.type == "int":
        low = 0 if parameter.minimum is None else int(parameter.minimum)
        # One odd, one even, one that is a multiple of nothing in the shapes.
        wanted = {"smallest": low, "one": 1, "five": 5, "half": max(1, case.kv_len // 2)}[choice]
    else:
        share = {"smallest": 0.02, "one": 0.05, "five": 0.2, "half": 0.5}[choice]
        wanted = parameter.default * share if parameter.default else share
    if parameter.minimum is not None:
        wanted = max(wanted, parameter.minimum)
    if parameter.maximum is not None:
        wanted = min(wanted, parameter.maximum)
    return int(wanted) if parameter.type == "int" else float(wanted)


def draw_tables(
    variant: Variant,
    case: Case,
    parameters: Mapping[str, int | float | bool],
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    """A table for every tensor of the variant, on the CPU; with `tables="default"` only for those
    without a default."""
    totals = (case.q_len, case.kv_len)
    if case.lengths is not None:
        totals = sum(q for q, _ in case.lengths), sum(kv for _, kv in case.lengths)
    sizes = {
        "batch": case.batch, "heads": case.heads, "kv_heads": case.kv_heads,
        "q_len": case.q_len, "kv_len": case.kv_len, "head_dim": case.head_dim,
        "total_q": totals[0], "total_kv": totals[1],
        **{p.name: p.default for p in variant.parameters},
        **parameters,
        **dict.fromkeys(free_names(variant), FREE_LENGTH),
        **dict(case.values),
    }  # fmt: skip
    found = {}
    for tensor in variant.tensors:
        if tensor.default is not None and case.tables == "default":
            continue
        shape = [d if isinstance(d, int) else int(sizes[d]) for d in tensor.shape]
        dtype = getattr(torch, tensor.dtype)
        found[tensor.name] = _draw(tensor, shape, case, generator).to(dtype)
    return found


def tables_on(
    device: str,
    variant: Variant,
    case: Case,
    parameters: Mapping[str, int | float | bool],
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    """`draw_tables` on a device, inside of what must never be read where the case says so."""
    tables = draw_tables(variant, case, parameters, generator)
    tables = {name: table.to(device) for name, table in tables.items()}
    if case.tables == "nan_padded":
        # On the device, for a copy to it would leave the surroundings behind.
        tables = {name: padded(table) for name, table in tables.items()}
    return tables


def _draw(tensor: Tensor, shape: list[int], case: Case, generator: torch.Generator) -> torch.Tensor:
    if tensor.type == "bool":
        return torch.rand(shape, generator=generator) < 0.7
    if tensor.type == "float":
        return torch.randn(shape, generator=generator, dtype=torch.float64)
    # Without a declared range the values are taken for lengths or identities.
    low, high = tensor.value_range or (0, case.kv_len + 1)
    if high - low > 4 * (case.kv_len + 1):
        high = low + case.kv_len + 1
    if tensor.nondecreasing:
        values = low + _runs(shape, generator, starts=case.tables == "starts")
        return values.clamp(max=high - 1)
    if case.tables == "extreme":
        return torch.where(torch.rand(shape, generator=generator) < 0.5, low, high - 1)
    values = torch.randint(low, high, shape, generator=generator)
    # A table as long as a sequence is more often a few labels than a measure.
    if shape and tensor.shape[-1] in DIMENSIONS[3:] and tensor.value_range is None:
        return values % 4
    return values


def _runs(shape: list[int], generator: torch.Generator, *, starts: bool) -> torch.Tensor:
    """Nondecreasing rows made of runs of varied length: counted 0, 1, 2, ... or, with `starts`,
    each holding the position it began at."""
    length = shape[-1]
    edge = torch.rand(shape, generator=generator) < 4.0 / max(4, length)
    # Runs of one element too, and an early boundary even in short tables.
    edge |= torch.rand(shape, generator=generator) < 0.03
    position = torch.arange(length).expand(shape)
    edge &= position > 0
    if starts:
        return torch.where(edge, position, 0).cummax(-1).values if length else position
    return edge.to(torch.int64).cumsum(-1)


def padded(table: torch.Tensor) -> torch.Tensor:
    """The same table inside a larger one whose rest must never be read."""
    poison: float | int | bool
    if table.dtype.is_floating_point:
        poison = float("nan")
    elif table.dtype == torch.bool:
        poison = True
    else:
        poison = INT_POISON.get(table.dtype, WIDE_INT_POISON)
    whole = table.new_full([n + 3 for n in table.shape], poison)
    inner = whole[tuple(slice(0, n) for n in table.shape)]
    inner.copy_(table)
    return inner
