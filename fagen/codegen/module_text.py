"""Everything `module.jinja` prints besides kernels: texts of the public functions, prepared."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from fagen.analysis.axes import axes_of
from fagen.codegen.arguments import free_dimensions
from fagen.codegen.configs import CONFIGS, ConfigRow
from fagen.codegen.kernel_text import KernelText
from fagen.codegen.plan import ModulePlan, words
from fagen.codegen.torch_text import torch_lines
from fagen.spec.expr import TRUE, Expr, name, names_in, substitute
from fagen.spec.names import DIMENSIONS, INDEX_LIMIT, INDEX_OF_DIMENSION
from fagen.spec.variant import SCORE, Parameter, Tensor

_TYPES = {"int": "int", "float": "float", "bool": "bool"}


@dataclass(frozen=True)
class DefaultTable:
    """A table that a caller may leave out: the function that makes it."""

    name: str
    shape: str
    sizes: str
    lines: tuple[str, ...]
    result: str


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
    def name(self) -> str:
        return self.plan.variant.name

    @property
    def spec_hash(self) -> str:
        return self.plan.variant.hash

    @property
    def title(self) -> str:
        description = self.plan.variant.description.strip().split("\n")[0]
        return description or f"Attention variant {self.name}."

    @property
    def runtime_ints(self) -> list[str]:
        found = [a.name for k in self.kernels for a in k.arguments if a.runtime_int]
        return list(dict.fromkeys(found))

    @property
    def configs(self) -> list[tuple[str, tuple[ConfigRow, ...]]]:
        roles = {k.role for k in self.kernels}
        return [(role, rows) for role, rows in CONFIGS.items() if role in roles]

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
        return tables + [f"{p.name}: {_TYPES[p.type]}" for p in self.parameters]

    @property
    def operator_names(self) -> list[str]:
        return [x.name for x in (*self.tables, *self.parameters)]

    @property
    def operator_unpack(self) -> str:
        return "".join(f"{n}, " for n in self.operator_names)

    @property
    def saved_tables(self) -> str:
        return "".join(f", {t.name}" for t in self.tables)

    @property
    def parameter_operands(self) -> str:
        return "".join(f", {p.name}" for p in self.parameters)

    @property
    def saved_scalars(self) -> str:
        return "".join(f"{p.name}, " for p in self.parameters)

    @property
    def no_gradients(self) -> str:
        return ", ".join(["None"] * (len(self.operator_names) + 4))

    @property
    def forward_shapes(self) -> list[str]:
        used = words([*self._launch_values(self.forward), *self.table_lines])
        return _unpacked(used | {"batch", "heads", "q_len", "head_dim_v"})

    @property
    def backward_shapes(self) -> list[str]:
        values = [v for k in self.kernels[1:] for v in self._launch_values(k)]
        used = words([*values, *self.table_lines, self.new_dq])
        always = {"batch", "heads", "q_len", "head_dim", "kv_heads", "kv_len", "head_dim_v"}
        return _unpacked(used | always)

    @property
    def reference_shapes(self) -> list[str]:
        lines = [*self.reference_tables, *self.reference_indices, *self.reference_lines]
        used = words([*lines, self.reference_sink])
        used |= {"batch", "q_len"} if self.reference_sink else frozenset()
        matrices = (("batch", "heads", "q_len", "head_dim"), ("kv_heads", "kv_len"))
        first = [n if n in used | {"heads"} else "_" for n in matrices[0]]
        second = [n if n in used | {"kv_heads"} else "_" for n in matrices[1]]
        return [f"{', '.join(first)} = q.shape", f"{', '.join(second)} = k.shape[1:3]"]

    @staticmethod
    def _launch_values(kernel: KernelText) -> list[str]:
        return [a.value for a in kernel.arguments]

    @property
    def new_dq(self) -> str:
        return "empty_like_heads(q, head_dim)" if self.plan.dq.trains_qk else "torch.zeros_like(q)"

    @property
    def default_tables(self) -> list[DefaultTable]:
        return [self._default_table(t) for t in self.tables if t.default is not None]

    def _default_sizes(self, tensor: Tensor) -> list[str]:
        assert tensor.default is not None
        used = {str(s) for s in tensor.shape if isinstance(s, str)} | names_in(tensor.default)
        parameters = [p.name for p in self.parameters]
        return [n for n in (*DIMENSIONS, *parameters) if n in used]

    def _default_table(self, tensor: Tensor) -> DefaultTable:
        assert tensor.default is not None
        sizes = self._default_sizes(tensor)
        lines = ["dtype = torch.float64"] if tensor.type == "float" else []
        rank = len(tensor.shape)
        for axis, size in enumerate(tensor.shape):
            index = INDEX_OF_DIMENSION.get(str(size))
            if index is not None and index in names_in(tensor.default):
                view = ["1"] * rank
                view[axis] = "-1"
                shaped = "" if rank == 1 else f".view({', '.join(view)})"
                lines.append(f"{index} = torch.arange({size}, device=device){shaped}")
        more, texts = torch_lines({"table": tensor.default})
        shape = ", ".join(str(s) for s in tensor.shape)
        more.append(f"table = torch.as_tensor({texts['table']}, device=device)")
        made = f"table.to(torch.{tensor.dtype}).expand({shape}).contiguous()"
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
                sizes = "".join(f"{s}, " for s in self._default_sizes(t))
                lines.append(f"if {t.name} is None:")
                lines.append(f"    {t.name} = made_once(default_{t.name}, {sizes}q.device)")
            lines.append(f"{t.name} = with_dense_rows({t.name})")
        return lines

    @property
    def reference_tables(self) -> list[str]:
        lines = []
        for t in self.tables:
            if t.default is not None:
                sizes = "".join(f"{s}, " for s in self._default_sizes(t))
                lines.append(f"if {t.name} is None:")
                lines.append(f"    {t.name} = default_{t.name}({sizes}q.device)")
        return lines + [f"{free} = {value}" for free, value in self._free_in_reference()]

    def _free_in_reference(self) -> Iterable[tuple[str, str]]:
        variant = self.plan.lowered
        used = names_in(variant.mask, variant.score, *([variant.sink] if variant.sink else []))
        return [x for x in free_dimensions(variant) if x[0] in used]

    # Keywords, docstrings and checks

    @property
    def keywords(self) -> list[str]:
        required = [t.name for t in self.tables if t.default is None]
        optional = [f"{t.name}=None" for t in self.tables if t.default is not None]
        return required + optional + [f"{p.name}={p.default!r}" for p in self.parameters]

    @property
    def keyword_docs(self) -> list[str]:
        docs = []
        for t in self.tables:
            shape = ", ".join(str(s) for s in t.shape)
            text = f"{t.name}: {t.dtype} [{shape}]"
            text += f" ({t.description.strip()})" if t.description else ""
            if t.default is not None:
                text += f", by default {t.default!r}"
            docs += textwrap.wrap(f"{text}.", 96, subsequent_indent="    ")
        for p in self.parameters:
            text = f"{p.name}: {p.type}{_limits(p)}"
            text += f" ({p.description.strip()})" if p.description else ""
            docs += textwrap.wrap(f"{text}.", 96, subsequent_indent="    ")
        return docs

    @property
    def check_lines(self) -> list[str]:
        lines = []
        if self.has_tables:
            lines += self._check_shapes()
        seen: set[str] = set()
        for t in self.tables:
            shape = ", ".join(self._expected_size(t, axis, seen) for axis in range(len(t.shape)))
            shape = f"({shape},)" if len(t.shape) == 1 else f"({shape})"
            check = f'check_table("{t.name}", {t.name}, torch.{t.dtype}, q.device, {shape})'
            if t.default is not None:
                lines += [f"if {t.name} is not None:", f"    {check}"]
            else:
                lines.append(check)
        for p in self.parameters:
            low, high = _bounds_text(p)
            lines.append(f'check_number("{p.name}", {p.name}, {p.type}, {low}, {high})')
        return lines

    def _check_shapes(self) -> list[str]:
        aliases = {"total_q": "q_len", "total_kv": "kv_len"}
        sizes = {aliases.get(str(s), str(s)) for t in self.tables for s in t.shape}
        ours = [n if n in sizes else "_" for n in ("batch", "heads", "q_len", "head_dim")]
        theirs = [n if n in sizes else "_" for n in ("kv_heads", "kv_len")]
        lines = []
        if set(ours) != {"_"}:
            lines.append(f"{', '.join(ours)} = q.shape")
        if set(theirs) != {"_"}:
            lines.append(f"{', '.join(theirs)} = k.shape[1:3]")
        return lines

    @staticmethod
    def _expected_size(tensor: Tensor, axis: int, seen: set[str]) -> str:
        size = str(tensor.shape[axis])
        aliases = {"total_q": "q_len", "total_kv": "kv_len"}
        if size.isdigit() or size in DIMENSIONS:
            return aliases.get(size, size)
        # A free name is bound by the first table that has it.
        bound = size if size in seen else f"{tensor.name}.shape[{axis}]"
        return bound

    @property
    def scale_must_be_positive(self) -> bool:
        return self.plan.tile.scale_must_be_positive

    @property
    def default_scale(self) -> str:
        shape = {name("head_dim"): name("q.shape[3]")}
        _, texts = torch_lines({"scale": substitute(self.plan.variant.scale, shape)})
        return texts["scale"]

    @property
    def scale_doc(self) -> str:
        return repr(self.plan.variant.scale)

    @property
    def default_q_offset(self) -> str:
        return "k.shape[2] - q.shape[2]" if self.plan.variant.position == "end" else "0"

    @property
    def position_doc(self) -> str:
        if self.plan.variant.position == "end":
            return "by default q holds the last of kv_len tokens"
        return "by default both start at 0"

    @property
    def empty_row_doc(self) -> str:
        return "0 and the sink" if self.plan.variant.sink is not None else "0 and -inf"

    # The dense reference

    def _reference_outputs(self) -> dict[str, Expr]:
        variant = self.plan.lowered
        outputs: dict[str, Expr] = {}
        if variant.score is not SCORE:
            outputs["score"] = variant.score
        if variant.mask is not TRUE:
            outputs["mask"] = variant.mask
        if variant.sink is not None:
            outputs["sink"] = variant.sink
        return outputs

    @property
    def reference_indices(self) -> list[str]:
        used = names_in(*self._reference_outputs().values())
        lines = []
        rows = (
            ("b", "torch.arange(batch, device=q.device).view(-1, 1, 1, 1)", {"b"}),
            ("h", "torch.arange(heads, device=q.device).view(1, -1, 1, 1)", {"h", "kv_h"}),
            ("kv_h", "h // (heads // kv_heads)", {"kv_h"}),
            ("q_idx", "torch.arange(q_len, device=q.device).view(1, 1, -1, 1) + q_offset", {"q_idx"}),
            ("kv_idx", "torch.arange(kv_len, device=q.device) + kv_offset", {"kv_idx"}),
        )
        for label, value, users in rows:
            if used & users:
                lines.append(f"{label} = {value}")
        return lines

    @property
    def reference_lines(self) -> list[str]:
        outputs = self._reference_outputs()
        lines, texts = torch_lines(outputs)
        if "score" in outputs:
            # `score` in the texts still means the scaled product, so the mask comes after.
            value = texts["score"]
            if not {"q", "kv"} <= axes_of(outputs["score"]):
                value = f"torch.zeros_like(score) + {value}"
            lines.append(f"score = {value}")
        if "mask" in outputs:
            mask = texts["mask"]
            if not axes_of(outputs["mask"]):
                mask = f"torch.as_tensor({mask}, device=q.device)"
            lines.append(f"score = torch.where({mask}, score, -math.inf)")
        return lines

    @property
    def reference_sink(self) -> str | None:
        if self.plan.variant.sink is None:
            return None
        _, texts = torch_lines(self._reference_outputs())
        return texts["sink"]


def _unpacked(used: frozenset[str]) -> list[str]:
    """Sizes of q and v as names, `_` for those that nothing uses."""
    ours = [n if n in used else "_" for n in ("batch", "heads", "q_len", "head_dim")]
    theirs = [n if n in used else "_" for n in ("kv_heads", "kv_len", "head_dim_v")]
    return [f"{', '.join(ours)} = q.shape", f"{', '.join(theirs)} = v.shape[1:]"]


def _bounds_text(p: Parameter) -> tuple[str, str]:
    if p.type == "bool":
        return "False", "True"
    if p.type == "int":
        limit = INDEX_LIMIT
        return str(max(p.minimum or -limit, -limit) if p.minimum is not None else -limit), str(
            min(p.maximum, limit) if p.maximum is not None else limit
        )
    low = "-math.inf" if p.minimum is None else repr(float(p.minimum))
    return low, "math.inf" if p.maximum is None else repr(float(p.maximum))


def _limits(p: Parameter) -> str:
    if p.minimum is None and p.maximum is None:
        return ""
    if p.maximum is None:
        return f" of at least {p.minimum}"
    if p.minimum is None:
        return f" of at most {p.maximum}"
    return f" from {p.minimum} to {p.maximum}"


