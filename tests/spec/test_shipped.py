"""The files that ship, the starter, the schema, and how a variant is found."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from fagen.spec.document import Document, json_schema
from fagen.spec.errors import SpecErrors
from fagen.spec.load import find_variant, load_text, load_variant, shipped_folder, shipped_names
from fagen.spec.starter import starter
from fagen.spec.text import to_text

MEANINGS = {
    "full": ("True", "score"),
    "causal": ("kv_idx <= q_idx", "score"),
    "sliding_window": ("0 <= q_idx - kv_idx and q_idx - kv_idx < window", "score"),
    "alibi": ("q_idx - kv_idx >= 0", "score - slopes[h] * (q_idx - kv_idx)"),
    "softcap": ("kv_idx <= q_idx", "cap * tanh(score / cap)"),
    "prefix_lm": ("kv_idx < prefix[b] or kv_idx <= q_idx", "score"),
    "document": ("doc[b, q_idx] == doc[b, kv_idx] and kv_idx <= q_idx", "score"),
    "sinks_window": (
        "kv_idx <= q_idx and (kv_idx < n_sink or q_idx - kv_idx < window)",
        "score",
    ),
    "gemma2_local": (
        "0 <= q_idx - kv_idx and q_idx - kv_idx < window",
        "cap * tanh(score / cap)",
    ),
}


#: What ships beside them, folder by folder; tests/verify holds a formula for each.
IN_FOLDERS = {
    "documents": "document_full document_sinks_window packed_causal shared_prefix",
    "masks": "bit_packed block_diagonal block_map causal_start chunked_causal dilated_window "
    "global_window key_padding mini_causal neighborhood_2d sliding_tile_2d sliding_tile_3d "
    "tree_causal two_sided_window",
    "scores": "alibi_symmetric batch_bias distance_score double_score full_bias graphormer "
    "grid_bias head_and_row_bias relative_bias squared_score t5_bias t5_bias_causal temperature",
    "softmax": "learned_sink softmax_plus_one",
}


def test_these_variants_ship() -> None:
    inside = {f"{folder}/{name}" for folder, n in IN_FOLDERS.items() for name in n.split()}
    found = {
        path.relative_to(shipped_folder()).with_suffix("").as_posix()
        for path in shipped_folder().rglob("*.yaml")
    }
    # Models have their own formulas: what transformers computes.
    assert {n for n in found if not n.startswith("models/")} == inside | set(MEANINGS)
    assert len(shipped_names()) == len(found), "two files bear one name"
    assert shipped_names()[: len(MEANINGS)] == sorted(MEANINGS)


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_file_is_short_and_says_what_it_is(name: str) -> None:
    path = find_variant(name)
    variant = load_variant(path)
    assert (variant.name, variant.path) == (name, str(path))
    assert variant.description.endswith(".") and len(variant.description) <= 94
    assert len(path.read_text().splitlines()) <= 25


def test_a_file_in_a_folder_extends_by_name() -> None:
    chunk = load_variant(find_variant("chunked_causal"))
    assert to_text(chunk.mask) == "q_idx // chunk == kv_idx // chunk and kv_idx <= q_idx"
    assert chunk.parameter("chunk").default == 8192


@pytest.mark.parametrize("name", MEANINGS)
def test_a_shipped_variant_means(name: str) -> None:
    path = find_variant(name)
    variant = load_variant(path)
    assert (to_text(variant.mask), to_text(variant.score)) == MEANINGS[name]


def test_the_defaults_that_ship() -> None:
    window = load_variant(find_variant("sliding_window")).parameter("window")
    assert (window.default, window.minimum) == (4096, 1)
    cap = load_variant(find_variant("softcap")).parameter("cap")
    assert (cap.default, cap.minimum) == (50.0, 1.0e-3)
    gemma = load_variant(find_variant("gemma2_local"))
    assert [(p.name, p.default) for p in gemma.parameters] == [("window", 4096), ("cap", 50.0)]
    slopes = load_variant(find_variant("alibi")).tensor("slopes")
    assert to_text(slopes.default) == "exp2(-8 * (h + 1) / heads)"
    assert load_variant(find_variant("document")).tensor("doc").nondecreasing


def test_a_path_is_found_before_a_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_variant("causal") == shipped_folder() / "causal.yaml"
    assert find_variant("causal.yaml") == Path("causal.yaml")
    assert find_variant("./causal") == Path("causal")
    Path("causal").write_text(starter("mine"))
    assert load_variant(find_variant("causal")).name == "mine"


@pytest.mark.parametrize("name", ["casual", "causal\0", "x" * 5000, "", "..", "__init__"])
def test_an_unknown_name_is_an_error_with_a_hint(name: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        load_variant(find_variant(name))
    (error,) = caught.value.diagnostics
    assert error.hint
    if name == "casual":
        assert str(error) == "error: there is no variant `casual`\nhint: did you mean `causal`?"


def refusal(path: Path) -> str:
    with pytest.raises(SpecErrors) as caught:
        load_variant(path)
    return str(caught.value).replace(str(path.parent), "DIR")


def test_files_that_cannot_be_read(tmp_path) -> None:
    (tmp_path / "window.yaml").write_text(starter("window"))
    assert refusal(tmp_path / "windw.yaml") == (
        "error: there is no such file\n  DIR/windw.yaml\nhint: did you mean `window.yaml`?"
    )
    (tmp_path / "folder").mkdir()
    assert refusal(tmp_path / "folder") == (
        "error: this is a folder, not a variant file\n  DIR/folder\nhint: name a file in it"
    )
    (tmp_path / "latin.yaml").write_bytes("name: x\n# caf\xe9\n".encode("latin-1"))
    assert refusal(tmp_path / "latin.yaml") == (
        "error: the file is not UTF-8\n  DIR/latin.yaml\n"
        "hint: save it as UTF-8; the first foreign byte is on line 2"
    )
    assert refusal(tmp_path / "window.yaml" / "below").startswith("error: cannot read the file")


def test_a_byte_order_mark_moves_no_column(tmp_path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes("\ufeffnam: x\n".encode())
    assert "bom.yaml:1:1" in refusal(path)


def test_extending_in_circles_ends(tmp_path) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nextends: {parent}\n")
    assert "extends itself" in refusal(tmp_path / "a.yaml")
    for i in range(12):
        (tmp_path / f"p{i}.yaml").write_text(f"name: p{i}\nextends: p{i + 1}\n")
    assert "more than 8 variants extend one another" in refusal(tmp_path / "p0.yaml")


def test_the_starter_loads_and_its_comments_do_too() -> None:
    variant = load_text(starter("my_variant"))
    assert variant.name == "my_variant" and len(variant.parameters) == 2
    # The commented example is legal once its marks are removed and it is used.
    text = starter("x").replace("# tensors:", "tensors:").replace("#   slopes", "  slopes")
    text = text.replace("score: cap", "score: slopes[h] + cap").replace("exp2(-8", "'exp2(-8")
    text = text.replace("/ heads)}", "/ heads)'}")
    assert [t.name for t in load_text(text).tensors] == ["slopes"]
    for name in ("my-variant", "", "score", "class", "1x", "x\ny", "{x}"):
        with pytest.raises(SpecErrors):
            starter(name)


def test_the_schema_knows_every_key_and_the_shipped_files_fit_it() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(Document.model_fields)
    assert schema["additionalProperties"] is False and schema["required"] == ["name"]
    assert schema["properties"]["position"]["enum"] == ["end", "start"]
    parameter = schema["$defs"]["ParameterEntry"]
    assert set(parameter["properties"]) == {
        "type", "default", "min", "max", "static", "description",
    }  # fmt: skip
    for name in shipped_names():
        document = yaml.safe_load(find_variant(name).read_text())
        assert set(document) <= set(schema["properties"])
        for entry in document.get("parameters", {}).values():
            assert set(entry) <= set(parameter["properties"])


def test_reading_needs_neither_torch_nor_numpy_and_takes_milliseconds() -> None:
    code = """
import sys
from fagen.spec import document, load, starter
assert not {"torch", "numpy", "sympy", "triton", "jinja2"} & set(sys.modules), sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    path = find_variant("gemma2_local")
    load_variant(path)
    times = []
    for _ in range(10):
        started = time.perf_counter()
        load_variant(path)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.02
