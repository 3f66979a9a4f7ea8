"""The shipped variants once more, as Variants built by hand and as formulas in plain torch.

Each formula gives (mask, score) from `score` [batch, heads, q, kv] and the positions; nothing here
goes through the expression evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from fagen.spec.expr import Expr, const, make, name, read
from fagen.spec.variant import SCORE, Parameter, Tensor, Variant

B, H, Q, KV = (name(n) for n in ("b", "h", "q_idx", "kv_idx"))
WINDOW, CAP = name("window"), name("cap", "float")
DISTANCE = make("sub", Q, KV)
CAUSAL = make("le", KV, Q)


def both(a: Expr, b: Expr) -> Expr:
    return make("and", a, b)


IN_WINDOW = both(make("le", const(0), DISTANCE), make("lt", DISTANCE, WINDOW))
CAPPED = make("mul", CAP, make("tanh", make("div", SCORE, CAP)))
SLOPES = make("exp2", make("div", make("mul", const(-8), make("add", H, const(1))), name("heads")))


@dataclass(frozen=True)
class Formula:
    """`mask(q, kv, p, t)` and `score(s, q, kv, p, t)`, p the parameters and t the tables."""

    variant: Variant
    mask: Callable
    score: Callable = lambda s, q, kv, p, t: s
    parameters: dict = field(default_factory=dict)
    tables: Callable = lambda batch, heads, q_len, kv_len: {}


def window(value: int) -> Parameter:
    return Parameter("window", "int", value, minimum=1)


def cap() -> Parameter:
    return Parameter("cap", "float", 50.0, minimum=1e-3)


def causal(q, kv, p, t):
    return kv <= q


def windowed(q, kv, p, t):
    return (q - kv >= 0) & (q - kv < p["window"])


def soft_capped(s, q, kv, p, t):
    return p["cap"] * torch.tanh(s / p["cap"])


def document_ids(batch, heads, q_len, kv_len):
    ids = torch.zeros(batch, kv_len, dtype=torch.int32)
    for row in range(batch):
        for start in (1, 2 + row, 7, 19):
            ids[row, start:] += 1
    return {"doc": ids}


def document_mask(q, kv, p, t):
    """A position before the first entry or behind the last belongs to document 0."""
    ids = t["doc"].tolist()

    def of(row, position):
        return row[position] if 0 <= position < len(row) else 0

    same = [
        [[of(row, i) == of(row, j) for j in kv.flatten().tolist()] for i in q.flatten().tolist()]
        for row in ids
    ]
    shape = (len(ids), 1, q.numel(), kv.numel())
    return torch.tensor(same, dtype=torch.bool).reshape(shape) & (kv <= q)


FORMULAS = {
    "full": Formula(Variant("full"), lambda q, kv, p, t: torch.ones_like(q - kv, dtype=torch.bool)),
    "causal": Formula(Variant("causal", mask=CAUSAL), causal),
    "sliding_window": Formula(
        Variant("sliding_window", parameters=(window(4096),), mask=IN_WINDOW),
        windowed,
        parameters={"window": 5},
    ),
    "alibi": Formula(
        Variant(
            "alibi",
            tensors=(Tensor("slopes", ("heads",), "float32", default=SLOPES),),
            mask=CAUSAL,
            score=make("sub", SCORE, make("mul", read("slopes", (H,), "float"), DISTANCE)),
        ),
        causal,
        lambda s, q, kv, p, t: s - t["slopes"].double()[:, None, None] * (q - kv),
        tables=lambda batch, heads, q_len, kv_len: {
            "slopes": torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])
        },
    ),
    "softcap": Formula(
        Variant("softcap", parameters=(cap(),), mask=CAUSAL, score=CAPPED),
        causal,
        soft_capped,
        parameters={"cap": 0.7},
    ),
    "prefix_lm": Formula(
        Variant(
            "prefix_lm",
            tensors=(Tensor("prefix", ("batch",), "int32"),),
            mask=make("or", make("lt", KV, read("prefix", (B,), "int")), CAUSAL),
        ),
        lambda q, kv, p, t: (kv < t["prefix"].view(-1, 1, 1, 1)) | (kv <= q),
        tables=lambda batch, heads, q_len, kv_len: {
            "prefix": torch.arange(batch, dtype=torch.int32) * 9
        },
    ),
    "document": Formula(
        Variant(
            "document",
            tensors=(Tensor("doc", ("batch", "kv_len"), "int32", nondecreasing=True),),
            mask=both(make("eq", read("doc", (B, Q), "int"), read("doc", (B, KV), "int")), CAUSAL),
        ),
        document_mask,
        tables=document_ids,
    ),
    "sinks_window": Formula(
        Variant(
            "sinks_window",
            parameters=(Parameter("n_sink", "int", 4, minimum=0), window(1024)),
            mask=both(
                CAUSAL,
                make("or", make("lt", KV, name("n_sink")), make("lt", DISTANCE, WINDOW)),
            ),
        ),
        lambda q, kv, p, t: (kv <= q) & ((kv < p["n_sink"]) | (q - kv < p["window"])),
        parameters={"n_sink": 3, "window": 4},
    ),
    "gemma2_local": Formula(
        Variant("gemma2_local", parameters=(window(4096), cap()), mask=IN_WINDOW, score=CAPPED),
        windowed,
        soft_capped,
        parameters={"window": 6, "cap": 0.9},
    ),
}


def by_hand(formula: Formula, q, k, v, tables, parameters, q_offset=None, kv_offset=0):
    """out and lse straight from the definition, one softmax over the whole matrix."""
    q_len, kv_len = q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    offset = kv_len - q_len if q_offset is None else q_offset
    q_idx = (torch.arange(q_len) + offset).view(-1, 1)
    kv_idx = (torch.arange(kv_len) + kv_offset).view(1, -1)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[3] ** 0.5
    scores = formula.score(scores, q_idx, kv_idx, parameters, tables)
    mask = formula.mask(q_idx, kv_idx, parameters, tables)
    scores = scores.masked_fill(~mask, float("-inf"))
    live = mask.expand_as(scores).any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~live, 0.0), -1).masked_fill(~live, 0.0)
    return weights @ v, torch.logsumexp(scores, -1)
