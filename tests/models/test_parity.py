"""Presets of models compute what the models' own attention in transformers computes.

Each model is run in miniature with random weights; its eager attention is caught with the q, k and
v, the mask, the scale and the tables that the model itself made, and with what came out of it.
"""

from __future__ import annotations

import importlib.util

import pytest
import torch
from generated import assert_close, module, shipped, tiles
from recorded import Call, Recording, answers, config, modeling, recorded
from tiny import TINY

from fagen.spec.load import shipped_files
from fagen.verify.evaluate import evaluate
from fagen.verify.reference import attention_reference, bind

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="needs transformers, which fagen's extra `dev` installs",
)
#: The models compute in float32; they come within 7e-7 of the largest element.
TOLERANCE = 3e-6
#: Kernels that differ in kind; the others' are those of the variants that they extend.
INTERPRETED = (
    "bloom", "deepseek_v3", "gemma2_9b_local", "gpt_oss_full", "llama3_8b", "phi3_mini_4k",
    "t5_decoder", "whisper_cross",
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def reference_of(name: str, recording: Recording, **changed):
    """The preset in float64, as a function of q, k and v."""
    tables = recording.tables | changed.pop("tables", {})
    parameters = {**TINY[name].parameters, **changed.pop("parameters", {})}

    def attend(q, k, v):
        return attention_reference(
            shipped(name), q, k, v, parameters=parameters, tensors=tables, **changed
        )[0]

    return attend


def scale_of(name: str, recording: Recording, call: Call) -> float:
    """The factor on q.k that the preset takes by itself."""
    given = {"parameters": TINY[name].parameters, "tensors": recording.tables}
    return bind(shipped(name), call.q, call.k, **given).scale


def test_every_preset_has_a_model() -> None:
    presets = [name for name, path in shipped_files().items() if path.parent.name == "models"]
    assert sorted(TINY) == sorted(presets)


@needs_transformers
@pytest.mark.parametrize("name", TINY)
def test_the_preset_is_the_models_attention(name: str) -> None:
    recording = recorded(name)
    for call in recording.calls:
        wanted = answers(reference_of(name, recording), call, torch.float64)
        assert_close(call.values, wanted, TOLERANCE)
        if call.scaling is not None:
            assert scale_of(name, recording, call) == pytest.approx(call.scaling, rel=1e-12)


@needs_transformers
@pytest.mark.parametrize("name", TINY)
def test_the_modules_reference_is_the_models_attention(name: str) -> None:
    recording = recorded(name)
    keywords = {**TINY[name].parameters, **recording.tables}
    for call in recording.calls:
        found = answers(lambda *qkv: module(name).reference(*qkv, **keywords), call)
        wanted = {n: x.double() for n, x in call.values.items()}
        assert_close(found, wanted, TOLERANCE)


@needs_transformers
@pytest.mark.parametrize("name", INTERPRETED)
def test_the_kernels_are_the_models_attention(name: str) -> None:
    recording, mod = recorded(name), module(name)
    keywords = {**TINY[name].parameters, **recording.tables, "config": tiles(mod, 16, 16)}
    for call in recording.calls[:2]:
        found = answers(lambda *qkv: mod.attention(*qkv, **keywords), call)
        wanted = {n: x.double() for n, x in call.values.items()}
        assert_close(found, wanted, 2e-5)


@needs_transformers
@pytest.mark.parametrize("name", TINY)
def test_another_setting_is_another_attention(name: str) -> None:
    """Else the models' weights and lengths would not tell a wrong preset from a right one."""
    recording = recorded(name)
    call = max(recording.calls, key=lambda c: c.q.shape[2])
    changes = [{"scale": 1.01 * scale_of(name, recording, call)}]
    for parameter in shipped(name).parameters:
        value = TINY[name].parameters.get(parameter.name, parameter.default)
        other = value + 1 if parameter.type == "int" else 1.02 * value
        changes.append({"parameters": {parameter.name: other}})
    for table, values in recording.tables.items():
        changes.append({"tables": {table: values * 1.02}})
    for change in changes:
        attend = reference_of(name, recording, **change)
        found = attend(*(x.double() for x in (call.q, call.k, call.v)))
        with pytest.raises(AssertionError, match=r"out: .* error"):
            assert_close({"out": found}, call.values, 10 * TOLERANCE)


#: Where a family's config has defaults of its own, they are the preset's.
DEFAULTS = {
    "mistral_7b": {"window": "sliding_window"},
    "gemma2_9b_local": {
        "window": "sliding_window",
        "cap": "attn_logit_softcapping",
        "query_pre_attn_scalar": "query_pre_attn_scalar",
    },
    "gemma2_9b_global": {
        "cap": "attn_logit_softcapping",
        "query_pre_attn_scalar": "query_pre_attn_scalar",
    },
    "gpt_oss_sliding": {"window": "sliding_window"},
    "t5_encoder": {"max_distance": "relative_attention_max_distance"},
    "t5_decoder": {"max_distance": "relative_attention_max_distance"},
    "modernbert_local": {"left": "sliding_window", "right": "sliding_window"},
}


@needs_transformers
@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_of_the_models_config(name: str) -> None:
    of_the_model = config(TINY[name])
    for parameter, setting in DEFAULTS[name].items():
        assert shipped(name).parameter(parameter).default == getattr(of_the_model, setting)


@needs_transformers
@pytest.mark.parametrize(("name", "bidirectional"), [("t5_encoder", True), ("t5_decoder", False)])
def test_buckets_of_distances(name: str, bidirectional: bool) -> None:
    """All distances to both sides, at the lengths of the table that the models have."""
    away = torch.arange(-1500, 1500 if bidirectional else 1)
    bucket = modeling("t5").T5Attention._relative_position_bucket
    wanted = bucket(away, bidirectional, num_buckets=32, max_distance=128)
    names = {
        "q_idx": -away, "kv_idx": 0, "h": 0, "buckets": 32, "max_distance": 128,
        "score": torch.zeros((), dtype=torch.float64),
    }  # fmt: skip
    table = {"bias": torch.arange(32.0).view(1, 32)}
    assert evaluate(shipped(name).score, names, table).long().tolist() == wanted.tolist()


@needs_transformers
def test_slopes_for_every_number_of_heads() -> None:
    for heads in range(1, 130):
        q = torch.zeros(1, heads, 1, 8)
        found = bind(shipped("bloom"), q, q).tensors["slopes"]
        wanted = modeling("bloom")._get_alibi_slopes(heads, torch.device("cpu"))
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)
        # One key after another is worth a slope less.
        line = modeling("mpt").build_mpt_alibi_tensor(heads, 2)[:, 0]
        torch.testing.assert_close(found, line[:, 1] - line[:, 0], rtol=1e-6, atol=0)
