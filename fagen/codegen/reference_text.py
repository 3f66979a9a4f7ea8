"""Texts of the generated `reference`: the variant in dense PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fagen.analysis.axes import axes_of
from fagen.codegen.arguments import free_dimensions
from fagen.codegen.defaults import reference_operands
from fagen.codegen.naming import words
from fagen.codegen.torch_text import torch_lines
from fagen.spec.expr import TRUE, Expr, names_in
from fagen.spec.variant import SCORE, Variant


@dataclass(frozen=True)
class ReferenceText:
    """See `templates/reference.jinja`. `lowered` is the variant as the dense kernels see it."""

    variant: Variant
    lowered: Variant

    @property
    def has_tables(self) -> bool:
        return bool(self.variant.tensors)

    @property
    def shapes(self) -> list[str]:
        used = words([*self.tables, *self.indices, *self.lines, self.sink])
        used |= {"heads", "kv_heads"} | ({"batch", "q_len"} if self.sink else set())
        first = [n if n in used else "_" for n in ("batch", "heads", "q_len", "head_dim")]
        second = [n if n in used else "_" for n in ("kv_heads", "kv_len")]
        return [f"{', '.join(first)} = q.shape", f"{', '.join(second)} = k.shape[1:3]"]

    @property
    def tables(self) -> list[str]:
        lines = []
        for t in self.variant.tensors:
            if t.default is not None:
                sizes = reference_operands(self.variant, t)
                lines.append(f"if {t.name} is None:")
                lines.append(f"    {t.name} = default_{t.name}({sizes}q.device)")
        return lines + [f"{free} = {value}" for free, value in self._free()]

    def _free(self) -> Iterable[tuple[str, str]]:
        roots = [self.lowered.mask, self.lowered.score]
        roots += [self.lowered.sink] if self.lowered.sink is not None else []
        used = names_in(*roots)
        return [x for x in free_dimensions(self.lowered) if x[0] in used]

    def _outputs(self) -> dict[str, Expr]:
        outputs: dict[str, Expr] = {}
        if self.lowered.score is not SCORE:
            outputs["score"] = self.lowered.score
        if self.lowered.mask is not TRUE:
            outputs["mask"] = self.lowered.mask
        if self.lowered.sink is not None:
            outputs["sink"] = self.lowered.sink
        return outputs

    @property
    def indices(self) -> list[str]:
        used = names_in(*self._outputs().values())
        rows = "torch.arange(q_len, device=q.device).view(1, 1, -1, 1) + q_offset"
        lines = []
        for label, value, users in (
            ("b", "torch.arange(batch, device=q.device).view(-1, 1, 1, 1)", {"b"}),
            ("h", "torch.arange(heads, device=q.device).view(1, -1, 1, 1)", {"h", "kv_h"}),
            ("kv_h", "h // (heads // kv_heads)", {"kv_h"}),
            ("q_idx", rows, {"q_idx"}),
            ("kv_idx", "torch.arange(kv_len, device=q.device) + kv_offset", {"kv_idx"}),
        ):
            if used & users:
                lines.append(f"{label} = {value}")
        return lines

    @property
    def lines(self) -> list[str]:
        outputs = self._outputs()
        lines, texts = torch_lines(outputs)
        if "score" in outputs:
            # `score` in the texts still means the scaled product, so the mask comes after.
            value = texts["score"]
            if not {"b", "h", "q", "kv"} <= axes_of(outputs["score"]):
                value = f"torch.zeros_like(score) + {value}"
            lines.append(f"score = {value}")
        if "mask" in outputs:
            mask = texts["mask"]
            if not axes_of(outputs["mask"]):
                mask = f"torch.as_tensor({mask}, device=q.device)"
            lines.append(f"score = torch.where({mask}, score, -math.inf)")
        return lines

    @property
    def sink(self) -> str | None:
        outputs = self._outputs()
        return torch_lines(outputs)[1]["sink"] if "sink" in outputs else None
