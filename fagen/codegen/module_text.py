"""What `module.jinja` prints besides kernels: header, configs, operators, default tables."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property

from fagen.codegen.autograd_text import ENDS, AutogradText, operands_of
from fagen.codegen.call_text import CallText, docstring
from fagen.codegen.configs import ROLES, ConfigRow, rows_of
from fagen.codegen.defaults import default_sizes, launcher_operands
from fagen.codegen.kernel_text import KernelText
from fagen.codegen.layout import braced
from fagen.codegen.lower import dense
from fagen.codegen.naming import words
from fagen.codegen.plan import ModulePlan
from fagen.codegen.reference_text import ReferenceText
from fagen.codegen.torch_text import torch_lines
from fagen.spec.expr import names_in
from fagen.spec.names import INDEX_OF_DIMENSION
from fagen.spec.variant import Parameter, Tensor

TITLE_WIDTH = 94


@dataclass(frozen=True)
class DefaultTable:
    """A table that a caller may leave out: the function that makes it."""

    name: str
    shape: str
    sizes: str
    lines: tuple[str, ...]
    result: str


@dataclass(frozen=True)
class WalkText:
    """A walk kernel, how many programs it has, and how long a row each writes."""

    kernel: KernelText
    programs: str
    row_length: str


@dataclass(frozen=True)
class ModuleText:
    """See `templates/module.jinja`, which prints each attribute once."""

    plan: ModulePlan
    version: str
    kernels: tuple[KernelText, ...]
    content_hash: str

    def kernel(self, role: str) -> KernelText:
        return next(k for k in self.kernels if k.role == role)

    @property
    def forward(self) -> KernelText:
        return self.kernel("forward")

    @property
    def prep(self) -> KernelText:
        return self.kernel("prep")

    @property
    def dkdv(self) -> KernelText:
        return self.kernel("dkdv")

    @property
    def dq(self) -> KernelText:
        return self.kernel("dq")

    @property
    def tabulate(self) -> KernelText | None:
        return None if self.plan.tabulate is None else self.kernel("tabulate")

    @property
    def tabulate_operands(self) -> list[str]:
        """The variant's inputs that the table by distance is made of."""
        used = words(self.kernel("tabulate").launch_values)
        return [name for name in self._inputs if name in used]

    @property
    def tabulate_sizes(self) -> list[str]:
        """Lines for the head counts that its launch needs beside `heads`."""
        used = words(self.kernel("tabulate").launch_values)
        return ["kv_heads = k.shape[1]"] if "kv_heads" in used else []

    @property
    def tabulate_signature(self) -> list[str]:
        names = ["q", *(["k"] if self.tabulate_sizes else []), *self.tabulate_operands]
        return braced("def by_distance(", [*names, "gap_first", "gaps"], "):")

    @property
    def tabulate_call(self) -> list[str]:
        """A launcher's lines that make the table."""
        names = ["q", *(["k"] if self.tabulate_sizes else []), *self.tabulate_operands]
        ends = ["q_offset", "kv_offset", "q_len", "kv_len", "cu_seqlens_q is not None"]
        return [
            *braced("gap_first, gaps = gap_range(", ends, ")"),
            *braced("tabulated = by_distance(", [*names, "gap_first", "gaps"], ")"),
        ]

    @property
    def _inputs(self) -> list[str]:
        return [*(t.name for t in self.tables), *(p.name for p in self.parameters)]

    @property
    def query_walk(self) -> WalkText | None:
        plan = self.plan.query_walk
        if plan is None:
            return None
        return WalkText(self.kernel("query_walk"), plan.programs, plan.row_length)

    @property
    def key_walk(self) -> WalkText | None:
        plan = self.plan.key_walk
        if plan is None:
            return None
        return WalkText(self.kernel("key_walk"), plan.programs, plan.row_length)

    @property
    def name(self) -> str:
        return self.plan.variant.name

    @property
    def spec_hash(self) -> str:
        return self.plan.variant.hash

    @property
    def description(self) -> str:
        return self.plan.variant.description or f"Attention variant {self.name}."

    @property
    def title(self) -> str:
        """One line, so that every module's header has the same length."""
        return docstring(textwrap.shorten(self.description, TITLE_WIDTH, placeholder=" ..."))

    @cached_property
    def call(self) -> CallText:
        return CallText(self.plan.variant, self.plan.tile.scale_must_be_positive)

    @cached_property
    def autograd(self) -> AutogradText:
        return AutogradText(self.plan)

    @cached_property
    def dense(self) -> ReferenceText:
        return ReferenceText(self.plan.variant, dense(self.plan.variant))

    @property
    def runtime_ints(self) -> list[str]:
        found = [a.name for k in self.kernels for a in k.arguments if a.runtime_int]
        return list(dict.fromkeys(found))

    @property
    def configs(self) -> list[tuple[str, tuple[ConfigRow, ...]]]:
        roles = {k.role for k in self.kernels}
        return [(role, rows_of(role, self.plan.visits)) for role in ROLES if role in roles]

    @property
    def roles_doc(self) -> str:
        return ", ".join(f'"{role}"' for role, _ in self.configs)

    # Functions printed only where used

    @property
    def uses_saturate(self) -> bool:
        return "saturate" in self.plan.own_functions

    @property
    def uses_floor_div(self) -> bool:
        return "floor_div" in self.plan.own_functions

    @property
    def uses_load_streamed(self) -> bool:
        return "load_streamed" in self.plan.own_functions

    @property
    def uses_floor_mod(self) -> bool:
        return "floor_mod" in self.plan.own_functions

    @property
    def uses_tanh(self) -> bool:
        return "tanh" in self.plan.own_functions

    @property
    def uses_fast_tanh(self) -> bool:
        return self.uses_tanh and self.plan.variant.accuracy == "fast"

    # Inputs of the variant

    @property
    def tables(self) -> tuple[Tensor, ...]:
        return self.plan.variant.tensors

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.plan.variant.parameters

    @property
    def has_tables(self) -> bool:
        return bool(self.tables)

    @property
    def has_parameters(self) -> bool:
        return bool(self.parameters)

    @property
    def has_inputs(self) -> bool:
        return self.has_tables or self.has_parameters

    @property
    def operator_parameters(self) -> list[str]:
        tables = [
            f"{t.name}: torch.Tensor | None" if t.default is not None else f"{t.name}: torch.Tensor"
            for t in self.tables
        ]
        ends = [f"{name}: torch.Tensor | None" for name in ENDS]
        lengths = [f"{name}: int" for name in self.plan.lengths]
        return [*tables, *ends, *(f"{p.name}: {p.type}" for p in self.parameters), *lengths]

    @property
    def operator_names(self) -> list[str]:
        return operands_of(self.plan)

    @property
    def dense_operands(self) -> list[str]:
        """What `attention` passes for them."""
        dense = dict.fromkeys(ENDS, "None")
        dense |= {"max_seqlen_q": "q.shape[2]", "max_seqlen_k": "k.shape[2]"}
        return [dense.get(name, name) for name in self.operator_names]

    @property
    def forward_shapes(self) -> list[str]:
        launched = [k for k in self.kernels if k.role in ("query_walk", "forward")]
        values = [v for k in launched for v in self._launch_values(k)]
        used = words([*values, *self.table_lines])
        return _unpacked(used | {"batch", "heads", "q_len", "head_dim_v"})

    @property
    def backward_shapes(self) -> list[str]:
        values = [v for k in self.kernels if k.role != "forward" for v in self._launch_values(k)]
        used = words([*values, *self.table_lines])
        always = {"batch", "heads", "q_len", "head_dim", "kv_heads", "kv_len", "head_dim_v"}
        return _unpacked(used | always)

    @staticmethod
    def _launch_values(kernel: KernelText) -> list[str]:
        return [a.value for a in kernel.arguments]

    @property
    def clears_dq(self) -> bool:
        """Whether no kernel writes dq, because the score ignores q.k."""
        return not self.plan.dq.trains_qk

    @property
    def default_tables(self) -> list[DefaultTable]:
        return [self._default_table(t) for t in self.tables if t.default is not None]

    def _default_table(self, tensor: Tensor) -> DefaultTable:
        assert tensor.default is not None
        sizes = default_sizes(self.plan.variant, tensor)
        lines = []
        rank = len(tensor.shape)
        for axis, size in enumerate(tensor.shape):
            index = INDEX_OF_DIMENSION.get(str(size))
            if index is not None and index in names_in(tensor.default):
                view = ["1"] * rank
                view[axis] = "-1"
                shaped = "" if rank == 1 else f".view({', '.join(view)})"
                lines.append(f"{index} = torch.arange({size}, device=device){shaped}")
        more, texts = torch_lines({"table": tensor.default}, device="device")
        shape = ", ".join(str(s) for s in tensor.shape)
        more.append(f"table = torch.as_tensor({texts['table']}, device=device)")
        if "dtype" in words(more):
            lines.append("dtype = torch.float64")
        made = f"table.to(torch.{tensor.dtype}).expand({shape or '()'}).contiguous()"
        return DefaultTable(
            name=tensor.name,
            shape=f"[{shape}]",
            sizes="".join(f"{s}, " for s in sizes),
            lines=(*lines, *more),
            result=made,
        )

    @property
    def table_lines(self) -> list[str]:
        lines = []
        for t in self.tables:
            if t.default is not None:
                sizes = launcher_operands(self.plan.variant, t)
                lines.append(f"if {t.name} is None:")
                lines.append(f"    {t.name} = made_once(default_{t.name}, {sizes}q.device)")
            if t.shape:
                lines.append(f"{t.name} = with_dense_rows({t.name})")
        return lines


def _unpacked(used: frozenset[str]) -> list[str]:
    """Sizes of q and v as names, `_` for those that nothing uses."""
    ours = [n if n in used else "_" for n in ("batch", "heads", "q_len", "head_dim")]
    theirs = [n if n in used else "_" for n in ("kv_heads", "kv_len", "head_dim_v")]
    return [f"{', '.join(ours)} = q.shape", f"{', '.join(theirs)} = v.shape[1:]"]
