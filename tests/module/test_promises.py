"""What a variant promises of its tables is checked under FAGEN_CHECK=1, before any launch."""

from __future__ import annotations

import pytest
import torch
from generated import inputs, module, tiles, written

KEPT = torch.tensor([[0, 0, 1, 4], [-3, 2, 2, 2]], dtype=torch.int32)
RANGED = "tensors:\n  kind: {shape: [kv_len], dtype: uint8, range: [1, 4]}\nmask: kind[kv_idx] > 1"


@pytest.fixture
def checked(monkeypatch) -> None:
    monkeypatch.setenv("FAGEN_CHECK", "1")


@pytest.fixture(params=["document", RANGED], ids=["order", "range"])
def broken(request):
    """A call whose table breaks its promise, and the words that say so."""
    q, k, v = (x.detach() for x in inputs(2, 2, 1, 4, 4, 16))
    if request.param == "document":
        doc = KEPT.clone()
        doc[1, 2] = -7
        words = r"doc must not decrease along its last axis, got \[2, -7\] at 1"
        return lambda doc=doc: module("document").attention(q, k, v, doc=doc), words
    kind = torch.tensor([1, 3, 4, 2], dtype=torch.uint8)
    _, ranged = written(RANGED)
    return lambda kind=kind: ranged.attention(q, k, v, kind=kind), "kind must be from 1 to 3, got 4"


def test_a_broken_promise_is_named(checked, broken) -> None:
    call, words = broken
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("value", [None, "0", ""])
def test_nobody_waits_unless_asked_to(monkeypatch, broken, value) -> None:
    monkeypatch.delenv("FAGEN_CHECK", raising=False)
    if value is not None:
        monkeypatch.setenv("FAGEN_CHECK", value)
    broken[0]()


def test_a_kept_promise_passes(checked) -> None:
    q, k, v = (x.detach() for x in inputs(2, 2, 1, 4, 4, 16))
    module("document").attention(q, k, v, doc=KEPT)
    kind = torch.tensor([1, 3, 3, 2], dtype=torch.uint8)
    written(RANGED)[1].attention(q, k, v, kind=kind)
    q, k, v = (x.detach() for x in inputs(0, 2, 1, 0, 0, 16))
    module("document").attention(q, k, v, doc=torch.zeros(0, 0, dtype=torch.int32))


def test_tensors_without_values_pass(checked) -> None:
    q, k, v = (x.detach().to("meta") for x in inputs(2, 2, 1, 4, 4, 16))
    out = module("document").attention(q, k, v, doc=KEPT.to("meta"))
    assert out.is_meta and out.shape == (2, 2, 4, 16)


def test_the_docstring_says_what_is_promised() -> None:
    for mod, words in (
        (module("document"), "nowhere less than the entry before"),
        (written(RANGED)[1], "values from 1 to 3"),
    ):
        assert words in " ".join(mod.attention.__doc__.split())


def test_a_module_without_promises_checks_none() -> None:
    assert not hasattr(module("prefix_lm"), "checks_promises")


def test_a_range_wider_than_the_dtype(monkeypatch):
    monkeypatch.setenv("FAGEN_CHECK", "1")
    _, mod = written(
        "tensors: {t: {shape: [kv_len], dtype: uint8, range: [-3, 300]}}\nmask: t[kv_idx] < 7"
    )
    q, k, v = (x.detach() for x in inputs(1, 1, 1, 5, 5, 16))
    mod.attention(q, k, v, t=torch.zeros(5, dtype=torch.uint8), config=tiles(mod))


def test_padding_behind_a_packed_sequence_is_no_broken_promise(monkeypatch):
    monkeypatch.setenv("FAGEN_CHECK", "1")
    mod = module("packed_causal")
    starts = torch.tensor([[0, 0, 1, 0, 0], [0, 0, 1, 2, 2]], dtype=torch.int32)
    q, k, v = (torch.randn(8, 1, 16) for _ in range(3))
    at = torch.tensor([0, 3, 8], dtype=torch.int32)
    mod.attention_varlen(q, k, v, at, at, 5, 5, doc_start=starts, config=tiles(mod))


def test_fake_tensors_have_no_values_to_check(monkeypatch):
    monkeypatch.setenv("FAGEN_CHECK", "1")
    mod = module("packed_causal")
    with torch._subclasses.FakeTensorMode():
        q, k, v = (torch.randn(1, 1, 5, 16) for _ in range(3))
        starts = torch.zeros(1, 5, dtype=torch.int32)
        assert mod.attention(q, k, v, doc_start=starts).shape == q.shape
