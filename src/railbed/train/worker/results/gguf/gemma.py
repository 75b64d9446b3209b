"""Gemma, Gemma 2, and the Gemma 3 that reads text only.

llama.cpp scales the embeddings itself, as transformers does. Which layers have a sliding window, and the scale of the
attention, follow from the number of layers there, so models of other shapes are refused.
"""

from __future__ import annotations

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import ModelFolder
from railbed.train.worker.results.gguf.architecture import (
    Architecture,
    Settings,
    head_size,
    require_activation,
    shared_settings,
)
from railbed.train.worker.results.gguf.container import Unsigned
from railbed.train.worker.results.gguf.llama import ATTENTION, LAYER, MLP
from railbed.train.worker.results.gguf.rotary import THETA, no_place, rope_kind, scaled_rope, theta_of

FOUR_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    **ATTENTION,
    **MLP,
}
GELU = ("gelu_pytorch_tanh", "gelu_new", "gelu")
"""Folders of the first Gemma name the last, and transformers takes the first for it."""
GEMMA2_LARGEST, GEMMA3_LARGEST = 46, 62
"""Layers of the models with 27 billion parameters, whose attention llama.cpp scales by the width per head."""
SOFTCAPS = ("attn_logit_softcapping", "final_logit_softcapping")
FULL, SLIDING = "full_attention", "sliding_attention"


def _settings(folder: ModelFolder, name: str, rope_part: str | None = None) -> Settings:
    require_activation(folder, name, ("hidden_activation", "hidden_act"), GELU)
    if folder.config.get("use_bidirectional_attention"):
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has no {name} whose tokens attend to those after them")
    return shared_settings(folder, name, rope_part) | scaled_rope(folder, name, rope_part)


def _tied_settings(folder: ModelFolder, name: str) -> Settings:
    if folder.config.get("tie_word_embeddings") is False:
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has no {name} with a separate matrix lm_head")
    return _settings(folder, name)


def _gemma2_settings(folder: ModelFolder, name: str) -> Settings:
    _require_shape(folder, name, period=2, largest=GEMMA2_LARGEST)
    for key in SOFTCAPS:
        if folder.config.get(key) is None:
            raise ModelError(f"{folder.path / CONFIG}: llama.cpp has no {name} without {key}")
    return {
        **_tied_settings(folder, name),
        **{f"{name}.{key}": folder.number(key, 0.0) for key in SOFTCAPS},
        f"{name}.attention.sliding_window": Unsigned(folder.count("sliding_window")),
    }


def _gemma3_settings(folder: ModelFolder, name: str) -> Settings:
    _require_shape(folder, name, period=6, largest=GEMMA3_LARGEST)
    for key in SOFTCAPS:
        if folder.config.get(key) is not None:
            raise ModelError(f"{folder.path / CONFIG}: llama.cpp has no {name} with {key}")
    return {
        **_settings(folder, name, FULL),
        f"{name}.rope.freq_base_swa": _local_theta(folder),
        f"{name}.attention.sliding_window": Unsigned(folder.count("sliding_window")),
    }


def _local_theta(folder: ModelFolder) -> float:
    """Return the base of the frequencies in layers with a sliding window, which have no scaling in llama.cpp."""
    parts = folder.config.get("rope_parameters")
    own = parts.get(SLIDING) if isinstance(parts, dict) else None
    rope = {"rope_theta": folder.config.get("rope_local_base_freq", THETA), **(own if isinstance(own, dict) else {})}
    if rope_kind(rope) != "default":
        raise no_place(folder, rope_kind(rope))
    return theta_of(folder, rope)


def _require_shape(folder: ModelFolder, name: str, *, period: int, largest: int) -> None:
    """Raise ModelError unless windows and scale of the attention are those that llama.cpp assumes."""
    layers = folder.count("num_hidden_layers")
    types = folder.config.get("layer_types") or []
    windows = [kind == SLIDING for kind in types] if isinstance(types, list) else []
    pattern = folder.config.get("sliding_window_pattern", period)
    if pattern != period or (types and windows != [layer % period > 0 for layer in range(1, len(windows) + 1)]):
        raise ModelError(
            f"{folder.path / CONFIG}: llama.cpp has {name} with full attention in layers {period}, {2 * period}, … only"
        )
    width = folder.count("hidden_size") // folder.count("num_attention_heads")
    wanted = width if layers == largest else head_size(folder)
    if folder.number("query_pre_attn_scalar", wanted) != wanted:
        raise ModelError(
            f"{folder.path / CONFIG}: llama.cpp has {name} of this size with query_pre_attn_scalar {wanted} only"
        )


def _adjust(_folder: ModelFolder, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Add 1 to the weights of norms, as transformers does when it computes."""
    return tensor.float() + 1 if name.endswith("norm.weight") else tensor


GEMMA = Architecture(name="gemma", layer=LAYER, settings=_tied_settings, adjust=_adjust, is_tied=True)
GEMMA2 = Architecture(name="gemma2", layer=FOUR_NORMS, settings=_gemma2_settings, adjust=_adjust, is_tied=True)
GEMMA3 = Architecture(name="gemma3", layer=FOUR_NORMS, settings=_gemma3_settings, adjust=_adjust)
