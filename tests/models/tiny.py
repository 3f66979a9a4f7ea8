"""For every preset: a model of transformers in miniature, and the preset's call that it implies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Tiny:
    """`family` is the package in transformers.models, `attention` the attention's place in `model`.

    `settings` go to the model's config; `parameters` and `tables` to the preset's call. `fused`
    names two linear layers of an attention that is one piece of code: the one that gives q, k and
    v together, split by the third entry, and the one that takes what was attended to.
    `runs` says how the model is called, see recorded.py. `gain` spreads the random weights.
    """

    family: str
    model: str
    attention: str
    settings: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tables: Callable[[torch.nn.Module], dict[str, torch.Tensor]] = lambda attention: {}
    fused: tuple[str, str, Callable] | None = None
    runs: str = "prompt and more"
    gain: float = 1.2


def decoder(layers: int = 1, **settings: Any) -> dict[str, Any]:
    """A small config in the words that most decoders share."""
    return {
        "hidden_size": 24, "intermediate_size": 16, "num_hidden_layers": layers, "vocab_size": 40,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, **settings,
    }  # fmt: skip


def sinks(attention: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {"sinks": attention.sinks.detach()}


def buckets(attention: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {"bias": attention.relative_attention_bias.weight.detach().T.contiguous()}


def split_by_head(fused: torch.Tensor, heads: int) -> tuple[torch.Tensor, ...]:
    """BLOOM keeps a head's q, k and v together."""
    return fused.unflatten(2, (heads, 3, -1)).transpose(1, 2).unbind(3)


def split_by_kind(fused: torch.Tensor, heads: int) -> tuple[torch.Tensor, ...]:
    """MPT has all heads' q before all k and all v."""
    return tuple(x.unflatten(2, (heads, -1)).transpose(1, 2) for x in fused.chunk(3, 2))


GEMMA2 = decoder(
    2, sliding_window=6, attn_logit_softcapping=1.5, query_pre_attn_scalar=9, pad_token_id=0
)
GPT_OSS = decoder(2, sliding_window=6, num_local_experts=2, num_experts_per_tok=1)
T5 = {
    "d_model": 24, "d_kv": 8, "d_ff": 16, "num_heads": 3, "num_layers": 1, "vocab_size": 40,
    "relative_attention_num_buckets": 16, "relative_attention_max_distance": 16,
}  # fmt: skip
MODERNBERT = {
    "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "vocab_size": 40, "local_attention": 8, "layer_types": ["full_attention", "sliding_attention"],
    "pad_token_id": 0,
}  # fmt: skip


def deepseek(mscale_all_dim: float, **settings: Any) -> dict[str, Any]:
    """Heads of q and k half again as wide as those of v, and YaRN with its factor on the scale."""
    rope = {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": mscale_all_dim, "mscale_all_dim": mscale_all_dim,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    return {
        "hidden_size": 24, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 40,
        "num_attention_heads": 3, "num_key_value_heads": 3, "q_lora_rank": 12, "kv_lora_rank": 8,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "first_k_dense_replace": 1, "rope_parameters": rope, **settings,
    }  # fmt: skip


TINY = {
    "llama3_8b": Tiny("llama", "LlamaModel", "layers.0.self_attn", decoder()),
    "mistral_7b": Tiny(
        "mistral", "MistralModel", "layers.0.self_attn", decoder(sliding_window=5), {"window": 5}
    ),
    "phi3_mini_4k": Tiny(
        "phi3",
        "Phi3Model",
        "layers.0.self_attn",
        decoder(num_attention_heads=2, head_dim=12, sliding_window=7, pad_token_id=0),
        {"window": 7},
    ),
    "gemma2_9b_local": Tiny(
        "gemma2",
        "Gemma2Model",
        "layers.0.self_attn",
        GEMMA2,
        {"window": 6, "cap": 1.5, "query_pre_attn_scalar": 9.0},
    ),
    "gemma2_9b_global": Tiny(
        "gemma2",
        "Gemma2Model",
        "layers.1.self_attn",
        GEMMA2,
        {"cap": 1.5, "query_pre_attn_scalar": 9.0},
    ),
    "gpt_oss_sliding": Tiny(
        "gpt_oss", "GptOssModel", "layers.0.self_attn", GPT_OSS, {"window": 6}, sinks
    ),
    "gpt_oss_full": Tiny(
        "gpt_oss", "GptOssModel", "layers.1.self_attn", GPT_OSS, tables=sinks
    ),
    "bloom": Tiny(
        "bloom",
        "BloomModel",
        "h.0.self_attention",
        {"hidden_size": 48, "n_layer": 1, "n_head": 6, "vocab_size": 40},
        fused=("query_key_value", "dense", split_by_head),
    ),
    "mpt_7b": Tiny(
        "mpt",
        "MptModel",
        "blocks.0.attn",
        {"d_model": 40, "n_heads": 5, "n_layers": 1, "vocab_size": 40, "max_seq_len": 32},
        fused=("Wqkv", "out_proj", split_by_kind),
    ),
    "t5_encoder": Tiny(
        "t5",
        "T5Model",
        "encoder.block.0.layer.0.SelfAttention",
        T5,
        {"max_distance": 16},
        buckets,
        runs="two sequences",
        gain=0.9,
    ),
    "t5_decoder": Tiny(
        "t5",
        "T5Model",
        "decoder.block.0.layer.0.SelfAttention",
        T5,
        {"max_distance": 16},
        buckets,
        runs="two sequences",
        gain=0.9,
    ),
    "deepseek_v2": Tiny(
        "deepseek_v2", "DeepseekV2Model", "layers.0.self_attn", deepseek(0.707),
    ),
    "deepseek_v3": Tiny("deepseek_v3", "DeepseekV3Model", "layers.0.self_attn", deepseek(1.0)),
    "whisper_cross": Tiny(
        "whisper",
        "WhisperModel",
        "decoder.layers.0.encoder_attn",
        {
            "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
            "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
            "vocab_size": 40, "num_mel_bins": 4, "max_source_positions": 21, "pad_token_id": 0,
            "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
        },
        runs="sound",
    ),
    "modernbert_local": Tiny(
        "modernbert",
        "ModernBertModel",
        "layers.1.attn",
        MODERNBERT,
        {"left": 4, "right": 4},
        runs="one sequence",
    ),
    "modernbert_global": Tiny(
        "modernbert", "ModernBertModel", "layers.0.attn", MODERNBERT, runs="one sequence"
    ),
}  # fmt: skip
