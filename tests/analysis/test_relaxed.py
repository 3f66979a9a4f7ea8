"""A mask without its unknown tables holds wherever the mask holds for some tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fagen.analysis.evaluate import evaluate
from fagen.analysis.relaxed import at_most
from fagen.spec.expr import names_in, tensors_in
from fagen.spec.load import load_text
from fagen.spec.text import to_text

LENGTH = 3
HEADER = """\
name: x
tensors: {kept: {shape: [n], dtype: bool}, doc: {shape: [kv_len], dtype: int32}}
"""
#: The mask, and what is left of it.
CASES = [
    ("kept[kv_idx] and kv_idx <= q_idx", "kv_idx <= q_idx"),
    ("kept[kv_idx] & (kv_idx <= q_idx)", "kv_idx <= q_idx"),
    ("kept[kv_idx] or kv_idx <= q_idx", "True"),
    ("not (kept[kv_idx] or kv_idx <= q_idx)", "kv_idx > q_idx"),
    ("~(kept[kv_idx] and kv_idx <= q_idx)", "True"),
    ("doc[q_idx] == doc[kv_idx] and not q_idx < kv_idx", "not q_idx < kv_idx"),
    ("(kept[q_idx] == kept[kv_idx]) != (q_idx == kv_idx) and kv_idx > 0", "kv_idx > 0"),
    ("(kept[kv_idx] if q_idx > 0 else kv_idx > 1) and kv_idx <= q_idx", "kv_idx <= q_idx"),
    ("kv_idx <= q_idx + n - 2 and kept[kv_idx] and kv_idx != 1", "kv_idx != 1"),
    ("doc[kv_idx] * 0 == 0 and kv_idx <= q_idx", "kv_idx <= q_idx"),
]


@pytest.mark.parametrize(("mask", "left"), CASES)
def test_what_is_left_holds_wherever_the_mask_may(mask, left) -> None:
    # The score reads both tables, for one that nothing reads is refused.
    full = load_text(f"{HEADER}mask: {mask}\nscore: score + (doc[0] if kept[0] else 0)\n").mask
    found = at_most(full, {"kept", "doc", "n"})
    assert to_text(found) == left
    assert not tensors_in(found) and "n" not in names_in(found)
    q, kv = np.arange(LENGTH)[:, None], np.arange(LENGTH)[None, :]
    names = {"q_idx": q, "kv_idx": kv, "n": LENGTH}
    held = np.broadcast_to(evaluate(found, names, {}), (LENGTH, LENGTH))
    met = np.zeros_like(held)
    for kept in itertools.product((False, True), repeat=LENGTH):
        for doc in itertools.product((0, 1), repeat=LENGTH):
            tables = {"kept": np.array(kept), "doc": np.array(doc, np.int32)}
            live = np.broadcast_to(evaluate(full, names, tables), (LENGTH, LENGTH))
            assert not (live & ~held).any()
            met |= live
    assert met.any(), "the mask is never true: nothing was tried"


def test_what_is_known_stays() -> None:
    mask = load_text(f"{HEADER}mask: kept[kv_idx] and doc[kv_idx] > 0\n").mask
    assert at_most(mask, set()) is mask
    assert to_text(at_most(mask, {"doc"})) == "kept[kv_idx]"
