"""What the attention of a model in transformers was given and what it made of it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from unittest import mock

import torch
from tiny import TINY, Tiny

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Values = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Call:
    """q, k, v [batch, heads, length, width], a gradient of out, and the model's own `values`.

    `scaling` is the factor on q.k, None where the attention does not tell it.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    dout: torch.Tensor
    values: Values
    scaling: float | None


@dataclass(frozen=True)
class Recording:
    """The calls of one attention, in order, and the tables that it holds."""

    calls: tuple[Call, ...]
    tables: dict[str, torch.Tensor]


def answers(attend: Attend, call: Call, dtype: torch.dtype = torch.float32) -> Values:
    """out and the gradients of q, k and v that `attend` gives for a call."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in (call.q, call.k, call.v)]
    out = attend(*leaves)
    return _values(out, torch.autograd.grad(out, leaves, call.dout.to(dtype)))


def _values(out: torch.Tensor, gradients: tuple[torch.Tensor, ...]) -> Values:
    return dict(zip(("out", "dq", "dk", "dv"), (out.detach(), *gradients), strict=True))


def _gradient_of(out: torch.Tensor) -> torch.Tensor:
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(1))


def modeling(family: str) -> ModuleType:
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")


def config(tiny: Tiny, **settings: object):
    """A config of the tiny model's class, with its own defaults where nothing is set."""
    return getattr(modeling(tiny.family), tiny.model).config_class(**settings)


@functools.cache
def recorded(name: str) -> Recording:
    """The preset's tiny model with random weights, run once."""
    tiny = TINY[name]
    settings = config(tiny, **tiny.settings)
    settings._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(modeling(tiny.family), tiny.model)(settings).eval()
    _draw(model, tiny.gain)
    attention = model.get_submodule(tiny.attention)
    watch = _watch_pieces if tiny.fused else _watch_function
    with watch(tiny, attention) as calls:
        for cache in RUNS[tiny.runs](model, settings):
            if tiny.fused:
                calls.take(cache)
    assert calls, f"{tiny.attention} was not called"
    return Recording(tuple(calls), tiny.tables(attention))


def _draw(model: torch.nn.Module, gain: float) -> None:
    """Weights that spread scores over some units; as initialised, all scores are nearly 0."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if id(weight) in embeddings or name.endswith("sinks"):
                weight.normal_()
            elif weight.dim() >= 2:
                weight.normal_(std=gain * weight.shape[-1] ** -0.5)


@contextmanager
def _watch_function(tiny: Tiny, attention: torch.nn.Module) -> Iterator[list[Call]]:
    """Calls of the family's eager attention, a function of q, k, v and a mask."""
    family, calls = modeling(tiny.family), []
    eager = family.eager_attention_forward

    def watched(module, q, k, v, mask, **keywords):
        if module is attention:
            factor = keywords["scaling"]
            scaling = getattr(module, "scaling", factor)
            # Whisper multiplies q before the call.
            already = factor / scaling

            def attend(q, k, v):
                return eager(module, q * (1 / already), k, v, mask, **keywords)[0].transpose(1, 2)

            with torch.enable_grad():
                calls.append(_call(attend, q * already, k, v, scaling))
        return eager(module, q, k, v, mask, **keywords)

    with mock.patch.object(family, "eager_attention_forward", watched):
        yield calls


def _call(attend: Attend, q, k, v, scaling: float) -> Call:
    q, k, v = (x.detach().contiguous() for x in (q, k, v))
    dout = _gradient_of(attend(q, k, v))
    call = Call(q, k, v, dout, {}, scaling)
    call.values.update(answers(attend, call))
    return call


class _Pieces(list):
    """Calls of an attention without such a function, from its first and last linear layer."""

    def __init__(self, tiny: Tiny, attention: torch.nn.Module) -> None:
        super().__init__()
        first, last, self.split = tiny.fused
        self.heads = getattr(attention, "num_heads", None) or attention.n_heads
        self.layer = attention.layer_idx
        self.hooks = (
            attention.get_submodule(first).register_forward_hook(self._given),
            attention.get_submodule(last).register_forward_pre_hook(self._made),
        )

    def _given(self, module, arguments, result: torch.Tensor) -> None:
        self.fused = result

    def _made(self, module, arguments) -> None:
        self.merged = arguments[0]

    def take(self, cache) -> None:
        """Adds the latest call; all of k and v, those of earlier calls too, are in the cache."""
        k, v = cache.layers[self.layer].keys, cache.layers[self.layer].values
        dmerged = _gradient_of(self.merged)
        dfused, dk, dv = torch.autograd.grad(
            self.merged, (self.fused, k, v), dmerged, retain_graph=True
        )
        out, dout = (
            x.unflatten(2, (self.heads, -1)).transpose(1, 2) for x in (self.merged, dmerged)
        )
        q, dq = (self.split(x, self.heads)[0] for x in (self.fused, dfused))
        values = _values(out, (dq, dk, dv))
        q, k, v = (x.detach().contiguous() for x in (q, k, v))
        self.append(Call(q, k, v, dout, values, None))


@contextmanager
def _watch_pieces(tiny: Tiny, attention: torch.nn.Module) -> Iterator[_Pieces]:
    pieces = _Pieces(tiny, attention)
    yield pieces
    for hook in pieces.hooks:
        hook.remove()


def _tokens(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(3, 40, shape, generator=generator)


def _prompt_and_more(model: torch.nn.Module, settings) -> Iterator[object]:
    """A prompt of 19 tokens, 6 more behind it, and one."""
    from transformers import DynamicCache

    cache = DynamicCache(config=settings)
    for length in (19, 6, 1):
        model(_tokens(2, length), cache=cache)
        yield cache


def _one_sequence(model: torch.nn.Module, settings) -> Iterator[None]:
    model(_tokens(2, 23))
    yield None


def _two_sequences(model: torch.nn.Module, settings) -> Iterator[None]:
    """An encoder's sequence, and a decoder's in two parts."""
    from transformers import DynamicCache, EncoderDecoderCache

    cache = EncoderDecoderCache(DynamicCache(config=settings), DynamicCache(config=settings))
    source = _tokens(2, 23)
    encoded = model.encoder(source)
    for length in (19, 6, 1):
        target = _tokens(2, length)
        model(encoder_outputs=encoded, decoder_input_ids=target, cache=cache, use_cache=True)
        yield None


def _sound(model: torch.nn.Module, settings) -> Iterator[None]:
    """Two frames for each position of the encoder, and a few tokens."""
    generator = torch.Generator().manual_seed(2)
    frames = 2 * settings.max_source_positions
    features = torch.randn(2, settings.num_mel_bins, frames, generator=generator)
    for length in (9, 1):
        model(features, decoder_input_ids=_tokens(2, length))
        yield None


RUNS = {
    "prompt and more": _prompt_and_more,
    "one sequence": _one_sequence,
    "two sequences": _two_sequences,
    "sound": _sound,
}
