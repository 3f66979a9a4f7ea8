"""A validated document -> `Variant`: every declaration and expression checked in one scope."""

from __future__ import annotations

import re
from dataclasses import replace

from fagen.spec.declare import declare_functions, declare_parameters, declare_tensors
from fagen.spec.document import Document
from fagen.spec.errors import Diagnostic
from fagen.spec.expand import check_uncalled
from fagen.spec.expr import FALSE, TRUE, Expr, Type, names_in, tensors_in
from fagen.spec.inherit import Family
from fagen.spec.names import INDEX_OF_DIMENSION
from fagen.spec.notes import notes
from fagen.spec.parse import as_type, parse
from fagen.spec.scale import example, signs
from fagen.spec.scope import (
    Rule,
    Scope,
    default_rule,
    mask_rule,
    misnamed,
    scale_rule,
    sink_rule,
)
from fagen.spec.source import Mapping, Node, Scalar, Source
from fagen.spec.validate import validate
from fagen.spec.variant import DEFAULT_SCALE, SCORE, Parameter, Tensor, Variant

PASSES = ("forward", "backward", "decode")


def assemble(family: Family, source: Source, problems: list[Diagnostic]) -> Variant | None:
    """The variant of a file, or None after adding to `problems`."""
    document, found = validate(family.root)
    problems += found
    return _Assembly(family, document, source, problems).variant()


class _Assembly:
    def __init__(
        self, family: Family, document: Document, source: Source, problems: list[Diagnostic]
    ) -> None:
        self.family, self.document, self.source = family, document, source
        self.root, self.problems = family.root, problems
        self.scope = Scope()
        self.let_uses: dict[str, set[str]] = {}
        self.used: set[str] = set()

    def variant(self) -> Variant | None:
        self.check_header()
        parameters = declare_parameters(self.root, self.document, self.scope, self.problems)
        tensors = declare_tensors(self.root, self.document, self.scope, parameters, self.problems)
        before = len(self.problems)
        functions = declare_functions(self.root, self.document, self.scope, self.problems)
        self.lower_lets()
        defaults = self.lower_defaults(tensors)
        mask = self.layered("mask", mask_rule(), "bool", TRUE)
        score = self.layered("score", Rule("`score`"), "float", SCORE)
        names = {p.name for p in parameters}
        scale = self.field("scale", scale_rule(names), DEFAULT_SCALE)
        self.check_scale(scale, parameters)
        sink = self.field("softmax.sink", sink_rule(), None)
        check_uncalled(functions, self.scope, self.problems)
        if mask is FALSE and before == len(self.problems):
            text = next(n for n in reversed(self.family.layers["mask"]) if n is not None).text
            hint = "no query would attend to any key"
            self.problems.append(text.whole("the mask is never true", hint))
        self.check_unused(before < len(self.problems))
        if self.problems or mask is None or score is None or scale is None:
            return None
        roots = [mask, score, scale, *([sink] if sink is not None else [])]
        self.check_lengths(tensors, roots)
        if self.problems:
            return None
        return Variant(
            name=self.document.name,
            description=self.document.description,
            **_kept(parameters, tensors, defaults, roots),
            mask=mask,
            score=score,
            scale=scale,
            sink=sink,
            position=self.document.position,
            accuracy=self.document.accuracy,
            partition=self.document.partition,
            passes=tuple(p for p in PASSES if p in self.document.passes),
            path=self.source.path,
            notes=notes(self.root, self.document),
        )

    def node(self, *path: str) -> Node | None:
        node: Node | None = self.root
        for step in path:
            node = node.get(step) if isinstance(node, Mapping) else None
        return node

    def check_header(self) -> None:
        node = self.node("name")
        if isinstance(node, Scalar) and (problem := misnamed(self.document.name, "a variant")):
            self.problems.append(node.error(*problem))
        passes = self.document.passes
        node = self.node("passes")
        if node is not None and "backward" in passes and "forward" not in passes:
            hint = "add `forward`: the backward needs its lse"
            self.problems.append(node.error("`backward` comes without `forward`", hint))

    def lower_lets(self) -> None:
        lets = list(self.document.let)
        section = self.node("let")
        assert isinstance(section, Mapping) or not lets
        ours = []
        for word in lets:
            key, node = section.entries[word]  # type: ignore[union-attr]
            if problem := self.scope.claim(word, "a `let` name"):
                self.problems.append(key.error(*problem))
            elif isinstance(node, Scalar):
                ours.append((word, node))
        if isinstance(section, Mapping):
            for word in section.entries.keys() - set(lets):
                self.scope.values.setdefault(word, None)
        self.scope.later = {word for word, _ in ours}
        for word, node in ours:
            place = f"`{word}`"
            lowered = parse(node.text, place, self.scope, Rule(place), self.problems)
            self.scope.later.discard(word)
            self.scope.values[word] = lowered.node if lowered else None
            self.let_uses[word] = lowered.uses if lowered else set()

    def lower_defaults(self, tensors: tuple[Tensor, ...]) -> dict[str, Expr]:
        defaults = {}
        for tensor in tensors:
            node = self.node("tensors", tensor.name, "default")
            if not isinstance(node, Scalar) or node.plain is None:
                continue
            indices = {
                INDEX_OF_DIMENSION[d]: d
                for d in tensor.shape
                if isinstance(d, str) and d in INDEX_OF_DIMENSION
            }
            rule = default_rule(tensor.name, indices)
            lowered = self.lowered(node, rule, tensor.type)
            if lowered is not None:
                defaults[tensor.name] = lowered
        return defaults

    def lowered(self, node: Scalar, rule: Rule, kind: Type) -> Expr | None:
        """A field's expression of the type it must have; the names it uses count as used."""
        result = parse(node.text, rule.place, self.scope, rule, self.problems)
        if result is None:
            return None
        self.used |= result.uses
        return as_type(result.node, kind, node.text, rule.place, self.problems)

    def layered(self, key: str, rule: Rule, kind: Type, default: Expr) -> Expr | None:
        layers = self.family.layers[key]
        first = 0
        for i, layer in enumerate(layers):
            if layer is not None and not re.search(r"\binherited\b", layer.value):
                first = i  # what it replaces no longer counts
        result: Expr | None = default
        for i, layer in enumerate(layers[first:], first):
            if layer is None:
                continue
            self.scope.inherited = result if i else None
            result = self.lowered(layer, rule, kind)
            self.scope.inherited = None
            if result is None:
                return None
        return result

    def field(self, key: str, rule: Rule, default: Expr | None) -> Expr | None:
        node = self.node(*key.split("."))
        if not isinstance(node, Scalar) or node.plain is None:
            return default
        return self.lowered(node, rule, "float")

    def check_scale(self, scale: Expr | None, parameters: tuple[Parameter, ...]) -> None:
        """What no head_dim and no parameter brings into the range of a scale serves no call."""
        node = self.node("scale")
        if scale is None or not isinstance(node, Scalar) or signs(scale, parameters):
            return
        value = example(scale, parameters)
        shown = "is no number" if value is None else f"is {value:g}"
        message = f"`scale` {shown} and never from 2**-100 to 2**100 or the negative of that"
        hint = "write a factor on q.k, such as `rsqrt(head_dim)`"
        self.problems.append(node.text.whole(message, hint))

    def check_unused(self, erroneous: bool) -> None:
        """An unused argument of a kernel is a defect; one that a parent declared just goes."""
        used = set(self.used)
        waiting = list(used)
        while waiting:
            word = waiting.pop()
            new = self.let_uses.get(word, set()) - used
            tensor = self.scope.tensors.get(word)
            if tensor is not None:
                new |= {d for d in tensor.shape if isinstance(d, str)} - used
                new |= self.shape_words(word) - used
            used |= new
            waiting += new
        text = _expressions(self.root, self.family) if erroneous else ""
        for section, what in (("parameters", "parameter"), ("tensors", "tensor")):
            mapping = self.node(section)
            if not isinstance(mapping, Mapping):
                continue
            for word, (key, _) in mapping.entries.items():
                if word in used or key.source is not self.source:
                    continue
                if erroneous and re.search(rf"\b{re.escape(word)}\b", text):
                    continue
                if self.scope.kinds.get(word) == f"a {what}":
                    hint = "remove it, or use it in an expression"
                    self.problems.append(key.error(f"{what} `{word}` is never used", hint))

    def check_lengths(self, tensors: tuple[Tensor, ...], roots: list[Expr]) -> None:
        """A length of the user's own is known only through a tensor that is read."""
        read = tensors_in(*roots)
        bound = {d for t in tensors if t.name in read for d in t.shape}
        for word in sorted(names_in(*roots) - bound):
            if self.scope.kinds.get(word) == "a length":
                holder = next(t.name for t in tensors if word in t.shape)
                entry = self.root.get("tensors")
                assert isinstance(entry, Mapping)
                hint = f"read `{holder}`, or make `{word}` a parameter"
                message = f"the length `{word}` is known from `{holder}` alone, which is not read"
                self.problems.append(entry.entries[holder][0].error(message, hint))

    def shape_words(self, tensor: str) -> set[str]:
        node = self.node("tensors", tensor, "shape")
        items = getattr(node, "items", ())
        return {item.value for item in items if isinstance(item, Scalar)}


def _kept(
    parameters: tuple[Parameter, ...],
    tensors: tuple[Tensor, ...],
    defaults: dict[str, Expr],
    roots: list[Expr],
) -> dict[str, tuple]:
    """The parameters and tensors that the expressions still need, with their defaults."""
    read = tensors_in(*roots)
    kept = tuple(replace(t, default=defaults.get(t.name)) for t in tensors if t.name in read)
    needed = names_in(*roots, *(t.default for t in kept if t.default is not None))
    needed |= {d for t in kept for d in t.shape if isinstance(d, str)}
    return {"parameters": tuple(p for p in parameters if p.name in needed), "tensors": kept}


def _expressions(root: Mapping, family: Family) -> str:
    """Every text of the document in which a name may occur."""
    texts: list[str] = []

    def walk(node: Node) -> None:
        if isinstance(node, Scalar):
            texts.append(node.value)
        for child in getattr(node, "items", ()):
            walk(child)
        if isinstance(node, Mapping):
            for _, value in node.entries.values():
                walk(value)

    walk(root)
    texts += [layer.value for layers in family.layers.values() for layer in layers if layer]
    return "\n".join(texts)
