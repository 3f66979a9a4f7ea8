"""Random variants as a user might write them: whole files, some of which extend another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from fagen.spec.names import INDEX_NAMES, INDEX_OF_DIMENSION
from fagen.verify.fuzz.draft import Block, Draft, Mapping
from fagen.verify.fuzz.drawing import SIZES, USUAL_SIZE, context
from fagen.verify.fuzz.ledger import KEYS, ROWS, SCORES, Ledger, Table
from fagen.verify.fuzz.pieces import Context, Piece, infix
from fagen.verify.fuzz.reals import Reals
from fagen.verify.fuzz.truths import Truths
from fagen.verify.fuzz.wholes import Wholes

SCALES = (
    "rsqrt(head_dim)", "1", "head_dim ** -0.5", "1 / sqrt(head_dim)", "0.3", "1.0 / head_dim",
    "exp2(-log2(head_dim) / 2)",
)  # fmt: skip


class Expressions(Wholes, Truths, Reals):
    """Everything the language can say."""


@dataclass(frozen=True)
class Drawn:
    """A draft and what a call of it needs to know."""

    draft: Draft
    ledger: Ledger


def draw_document(rng: Random) -> Drawn:
    """A well-typed variant, most often; the language refuses a small share."""
    ledger = Ledger(rng)
    draw = Expressions(rng, ledger, fuel=rng.choice([8, 20, 40, 70]))
    deep = rng.choice([1, 2, 2, 3, 3, 4])
    first: Mapping = {}
    if rng.random() < 0.85:
        first["mask"] = written(draw.mask(deep, context(KEYS)), rng)
    if rng.random() < 0.75:
        first["score"] = written(draw.score(deep, context(SCORES)), rng)
    if rng.random() < 0.15:
        first["scale"] = scale(draw)
    if rng.random() < 0.2:
        first["softmax"] = {"sink": written(sink(draw, deep), rng)}
    files: list[tuple[str, Mapping]] = []
    if rng.random() < 0.12 and first:
        before = ledger.snapshot()
        parent = assembled("parent", first, ledger.entries(), draw)
        child = inheriting(first, draw, deep)
        defaults(draw)
        sections = ledger.entries(before)
        override(parent, sections, rng)
        files = [("parent", parent), ("drawn", child_of(child, sections, draw))]
    else:
        defaults(draw)
        files = [("drawn", assembled("drawn", first, ledger.entries(), draw))]
    return Drawn(Draft(tuple(files)), ledger)


def written(piece: Piece, rng: Random) -> str:
    """The text, now and then over several lines with a comment."""
    if rng.random() > 0.1 or " " not in piece.text:
        return piece.text
    breaks = [m.start() for m in re.finditer(" ", piece.text)]
    at = rng.choice(breaks)
    comment = rng.choice(["", "  # what follows, follows"])
    return Block(f"{piece.text[:at]}{comment}\n  {piece.text[at + 1 :]}\n")


def scale(draw: Expressions) -> str:
    """A positive factor of head_dim and parameters."""
    text = draw.rng.choice(SCALES)
    kind = draw.weighted({"plain": 3, "float": 2, "bool": 1})
    if kind == "plain":
        return text
    if kind == "float":
        return f"({text}) * {draw.ledger.parameter('float', positive=True).name}"
    return f"{text} if {draw.ledger.parameter('bool').name} else 0.2"


def sink(draw: Expressions, deep: int) -> Piece:
    return draw.real(min(deep, 2), context(ROWS))


def inheriting(first: Mapping, draw: Expressions, deep: int) -> Mapping:
    """Mask and score of a child, over those of its parent."""
    rng, child = draw.rng, {}
    if rng.random() < 0.7:
        mask = draw.mask(min(deep, 2), context(KEYS))
        if "mask" in first and rng.random() < 0.7:
            mask = infix(rng.choice(["and", "or", "bitor"]), Piece("inherited"), mask)
        child["mask"] = written(mask, rng)
    if rng.random() < 0.6:
        score = draw.real(min(deep, 2), context(SCORES))
        if "score" in first and rng.random() < 0.7:
            # -inf times a negative number would be a score of inf, for which nothing is defined.
            finite = "inf" not in str(first["score"])
            op = rng.choice(["add", "mul", "sub"] if finite else ["add", "sub"])
            score = infix(op, Piece("inherited"), score)
        child["score"] = written(score, rng)
    return child or {"position": "start"}


def override(parent: Mapping, sections: Mapping, rng: Random) -> None:
    """The child changes the default of one of its parent's parameters."""
    for name, entry in parent.get("parameters", {}).items():
        if entry["type"] == "bool" and rng.random() < 0.5:
            sections.setdefault("parameters", {})[name] = {"default": not entry["default"]}
            return


def assembled(name: str, roots: Mapping, sections: Mapping, draw: Expressions) -> Mapping:
    """A file: its header, its declarations, its expressions, its options, in one of some orders."""
    rng = draw.rng
    header: Mapping = {"name": name}
    if rng.random() < 0.3:
        header["description"] = "A variant that nobody asked for: random, but legal."
    body = {**sections, **roots}
    if rng.random() < 0.2:
        keys = list(body)
        rng.shuffle(keys)
        body = {key: body[key] for key in keys}
    return {**header, **body, **options(rng)}


def child_of(roots: Mapping, sections: Mapping, draw: Expressions) -> Mapping:
    child = assembled("drawn", roots, sections, draw)
    return {
        "name": child.pop("name"),
        "extends": draw.rng.choice(["parent", "parent.yaml"]),
        **child,
    }


def options(rng: Random) -> Mapping:
    found: Mapping = {}
    for key, share, values in (
        ("position", 0.3, ("start", "end")),
        ("accuracy", 0.4, ("exact", "fast")),
        ("partition", 0.15, ("auto", "fa2", "fa3")),
    ):
        if rng.random() < share:
            found[key] = rng.choice(values)
    if rng.random() < 0.05:
        found["passes"] = ["forward", "backward", *rng.choice([[], ["decode"]])]
    if rng.random() < 0.05:
        problem: Mapping = {"batch": 1, "heads": 8, "q_len": 4096, "head_dim": 128}
        if rng.random() < 0.5:
            dtype = rng.choice(["float16", "bfloat16", "float32"])
            problem |= {"kv_heads": 2, "kv_len": 8192, "head_dim_v": 64, "dtype": dtype}
        found["tuning"] = {"problems": [problem]}
    return found


def defaults(draw: Expressions) -> None:
    """Some tables get a default: an expression over the index names of their shape."""
    for table in draw.ledger.tables:
        if draw.chance(0.25) and may_have_default(table, draw.ledger):
            table.entry["default"] = draw.draw(table.type, 2, along(table, draw)).text


def may_have_default(table: Table, ledger: Ledger) -> bool:
    named = [d for d in table.shape if isinstance(d, str)]
    promised = "range" in table.entry or "nondecreasing" in table.entry
    repeated = any(named.count(d) > 1 for d in named)
    small = table.entry["dtype"] in ("int8", "uint8", "int16")
    return not (repeated or promised or small or set(named) & set(ledger.lengths))


def along(table: Table, draw: Expressions) -> Context:
    lengths = {w: SIZES.get(w, USUAL_SIZE) for w, e in INDEX_NAMES.items() if not e.axes}
    run = {INDEX_OF_DIMENSION[d]: USUAL_SIZE for d in table.shape if d in INDEX_OF_DIMENSION}
    return Context(ROWS, {**lengths, **run}, tables=False, parameters=False, lets=False)
