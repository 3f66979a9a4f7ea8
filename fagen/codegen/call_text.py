"""Texts of the public `attention`: its keywords, what they mean, and what they must fulfil."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from fagen.codegen.layout import braced
from fagen.codegen.torch_text import torch_lines
from fagen.spec.expr import name, substitute
from fagen.spec.names import FLOAT_LIMIT
from fagen.spec.variant import Parameter, Tensor, Variant

DOC_WIDTH = 96
#: Where the generated checks find the lengths that a table's shape may name.
SIZES = {
    "batch": "q.shape[0]", "heads": "q.shape[1]", "kv_heads": "k.shape[1]", "q_len": "q.shape[2]",
    "kv_len": "k.shape[2]", "head_dim": "q.shape[3]", "total_q": "q.shape[2]",
    "total_kv": "k.shape[2]",
}  # fmt: skip
#: The same where sequences are packed.
SIZES_VARLEN = SIZES | {
    "batch": "cu_seqlens_q.shape[0] - 1", "q_len": "max_seqlen_q", "kv_len": "max_seqlen_k",
}  # fmt: skip


def docstring(text: str) -> str:
    """The text as it may stand inside a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


@dataclass(frozen=True)
class CallText:
    """See `templates/module.jinja` and `templates/checks.jinja`."""

    variant: Variant
    scale_must_be_positive: bool

    @property
    def opening(self) -> str:
        """The description, wrapped as the first lines of a docstring."""
        text = self.variant.description or f"Attention variant {self.variant.name}."
        return docstring("\n    ".join(textwrap.wrap(text, DOC_WIDTH - 4)))

    @property
    def keywords(self) -> list[str]:
        tables = self.variant.tensors
        required = [t.name for t in tables if t.default is None]
        optional = [f"{t.name}=None" for t in tables if t.default is not None]
        return (
            required
            + optional
            + [f"{p.name}={_number(p.default)}" for p in self.variant.parameters]
        )

    @property
    def keyword_docs(self) -> list[str]:
        docs = []
        for t in self.variant.tensors:
            text = f"{t.name}: {t.dtype} [{', '.join(str(s) for s in t.shape)}]"
            text += f" ({t.description.strip()})" if t.description else ""
            if t.nondecreasing:
                text += ", nowhere less than the entry before"
            if t.value_range is not None:
                text += f", values from {t.value_range[0]} to {t.value_range[1] - 1}"
            if t.default is not None:
                text += f", by default {t.default!r}"
            docs += _wrapped(text)
        for p in self.variant.parameters:
            text = f"{p.name}: {p.type}{_limits(p)}"
            text += f" ({p.description.strip()})" if p.description else ""
            docs += _wrapped(text)
        return docs + _wrapped(f"scale: factor on q.k, {self.variant.scale!r} by default")

    @property
    def default_scale(self) -> list[str]:
        """Where the caller left `scale` out: the default, of plain numbers and `q.shape[3]`."""
        shape = {name("head_dim"): name("q.shape[3]")}
        lines, texts = torch_lines({"scale": substitute(self.variant.scale, shape)})
        if not lines:
            return [f"scale = {texts['scale']} if scale is None else scale"]
        lines = [*lines, f"scale = {texts['scale']}"]
        return ["if scale is None:", *(f"    {line}" for line in lines)]

    @property
    def scale_check(self) -> str:
        """2**100 keeps every product with it finite in float32, and nonzero where it must be."""
        return "2**-100" if self.scale_must_be_positive else "-(2**100)"

    @property
    def default_q_offset(self) -> str:
        return "k.shape[2] - q.shape[2]" if self.variant.position == "end" else "0"

    @property
    def position_doc(self) -> str:
        if self.variant.position == "end":
            return "by default q holds the last of kv_len tokens"
        return "by default both start at 0"

    @property
    def empty_row_doc(self) -> str:
        return "0 and the sink" if self.variant.sink is not None else "0 and -inf"

    @property
    def check_signature(self) -> list[str]:
        return braced("def check_inputs(", self._checked, "):")

    @property
    def check_call(self) -> list[str]:
        return self._check_call(SIZES)

    @property
    def check_call_varlen(self) -> list[str]:
        return self._check_call(SIZES_VARLEN)

    def _check_call(self, sizes: dict[str, str]) -> list[str]:
        """Nothing for a variant without inputs of its own."""
        if not self._own:
            return []
        if not self.variant.tensors:
            return braced("check_inputs(", self._checked, ")")
        known = {**sizes, **{p.name: p.name for p in self.variant.parameters}}
        used = dict.fromkeys(s for t in self.variant.tensors for s in t.shape if s in known)
        lines = braced("sizes = {", [f'"{s}": {known[str(s)]}' for s in used], "}")
        return [*lines, *braced("check_inputs(", ["q.device", *self._checked[1:]], ")")]

    @property
    def _checked(self) -> list[str]:
        return [*(["device", "sizes"] if self.variant.tensors else []), *self._own]

    @property
    def _own(self) -> list[str]:
        return [t.name for t in self.variant.tensors] + [p.name for p in self.variant.parameters]

    @property
    def check_lines(self) -> list[str]:
        """Parameters first: a table's shape may name them."""
        lines = []
        for p in self.variant.parameters:
            low, high = map(_bound, p.bounds)
            lines.append(f'check_number("{p.name}", {p.name}, {p.type}, {low}, {high})')
        tables = self.variant.tensors
        for t in tables:
            shape = ", ".join(str(s) if isinstance(s, int) else f'"{s}"' for s in t.shape)
            shape = f"({shape},)" if len(t.shape) == 1 else f"({shape})"
            items = [f'"{t.name}"', t.name, f"torch.{t.dtype}", "device", shape, "sizes"]
            check = braced("check_table(", items, ")")
            if t.default is not None:
                lines.append(f"if {t.name} is not None:")
                check = [f"    {line}" for line in check]
            lines += check
        return lines

    @property
    def promise_lines(self) -> list[str]:
        return [line for t in self.variant.tensors for line in _promises(t)]

    @property
    def promise_signature(self) -> list[str]:
        return braced("def check_promises(", self._promising, "):")

    @property
    def promise_call(self) -> list[str]:
        return braced("check_promises(", self._promising, ")")

    @property
    def _promising(self) -> list[str]:
        return [t.name for t in self.variant.tensors if _promises(t)]

    @property
    def has_promises(self) -> bool:
        return any(_promises(t) for t in self.variant.tensors)

    @property
    def promises_order(self) -> bool:
        return any(t.nondecreasing for t in self.variant.tensors)

    @property
    def promises_range(self) -> bool:
        return any(t.value_range is not None for t in self.variant.tensors)


def _promises(t: Tensor) -> list[str]:
    """Checks of what a table's values were promised to be."""
    checks = []
    if t.nondecreasing:
        checks.append(f'check_order("{t.name}", {t.name})')
    if t.value_range is not None:
        low, high = t.value_range
        checks.append(f'check_range("{t.name}", {t.name}, {low}, {high - 1})')
    if checks and t.default is not None:
        return [f"if {t.name} is not None:", *(f"    {check}" for check in checks)]
    return checks


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(f"{text}.", DOC_WIDTH, subsequent_indent="    ")
    return [docstring(line) for line in lines]


def _bound(value: int | float | bool) -> str:
    """A limit of a check; the one that every float has is said as a power."""
    if isinstance(value, float) and abs(value) == FLOAT_LIMIT:
        return "2.0**100" if value > 0 else "-(2.0**100)"
    return _number(value)


def _number(value: int | float | bool) -> str:
    """As ruff would write it: 1e20, not 1e+20."""
    return repr(value).replace("e+", "e")


def _limits(p: Parameter) -> str:
    if p.minimum is None and p.maximum is None:
        return ""
    if p.maximum is None:
        return f" of at least {p.minimum}"
    if p.minimum is None:
        return f" of at most {p.maximum}"
    return f" from {p.minimum} to {p.maximum}"
