"""Types of models that can be written as GGUF, by the name that transformers has for them.

Llama and its relatives are Mistral, Qwen2 and Qwen3. Gemma is there as Gemma, Gemma 2, and the Gemma 3 that reads text
only: llama.cpp scales the embeddings itself, as transformers does, and which layers have a sliding window, and the
scale of the attention, follow from the number of layers there, so models of other shapes are refused. Phi-3 has
queries, keys and values in one matrix, gate and up in another, in llama.cpp as in transformers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import MOST, ModelFolder
from railbed.train.worker.results.gguf.architecture import (
    GgufArchitecture,
    Settings,
    head_size,
    kv_heads,
    require_activation,
    shared_settings,
)
from railbed.train.worker.results.gguf.container import Unsigned
from railbed.train.worker.results.gguf.rotary import (
    THETA,
    Rope,
    llama3_frequencies,
    no_place,
    rope_kind,
    rope_number,
    rope_of,
    scaled_rope,
    theta_of,
)
from railbed.train.worker.results.gguf.tokenizerfile import OWN_CONVERTER

MLP = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
ATTENTION = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", **ATTENTION, **MLP}


def _settings(folder: ModelFolder, name: str) -> Settings:
    require_activation(folder, name, ("hidden_act",), ("silu",))
    return shared_settings(folder, name) | scaled_rope(folder, name)


def _adjust(folder: ModelFolder, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Reorder the rows of queries and keys: llama.cpp rotates neighbours, transformers the halves of a head."""
    if ".attn_q." in name:
        return _interleave(tensor, folder.count("num_attention_heads"))
    return _interleave(tensor, kv_heads(folder)) if ".attn_k." in name else tensor


def _interleave(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    if tensor.shape[0] % (2 * heads):
        raise ModelError(f"a matrix with {tensor.shape[0]} rows cannot be divided into {heads} heads")
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()


def _frequencies(folder: ModelFolder) -> Mapping[str, torch.Tensor]:
    return llama3_frequencies(folder, head_size(folder))


def window_difference(folder: ModelFolder) -> Sequence[str]:
    """Return a sentence if transformers lets tokens attend to a sliding window, which llama.cpp does not have here."""
    window = folder.config.get("sliding_window")
    if type(window) is not int or not 0 < window < folder.count("max_position_embeddings"):
        return ()
    return (
        f"in llama.cpp, every token of this type of model attends to all before it, and not only to the last {window}: "
        "longer texts continue differently there",
    )


LLAMA = GgufArchitecture(name="llama", layer=LAYER, settings=_settings, adjust=_adjust, added=_frequencies)
MISTRAL = GgufArchitecture(
    name="llama", layer=LAYER, settings=_settings, adjust=_adjust, added=_frequencies, differences=window_difference
)
QWEN2 = GgufArchitecture(name="qwen2", layer=LAYER, settings=_settings)
QWEN3 = GgufArchitecture(name="qwen3", layer=LAYER, settings=_settings)


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


def _gemma_settings(folder: ModelFolder, name: str, rope_part: str | None = None) -> Settings:
    require_activation(folder, name, ("hidden_activation", "hidden_act"), GELU)
    if folder.config.get("use_bidirectional_attention"):
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has no {name} whose tokens attend to those after them")
    return shared_settings(folder, name, rope_part) | scaled_rope(folder, name, rope_part)


def _tied_settings(folder: ModelFolder, name: str) -> Settings:
    if folder.config.get("tie_word_embeddings") is False:
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has no {name} with a separate matrix lm_head")
    return _gemma_settings(folder, name)


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
        **_gemma_settings(folder, name, FULL),
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


def _adjust_gemma(_folder: ModelFolder, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Add 1 to the weights of norms, as transformers does when it computes."""
    return tensor.float() + 1 if name.endswith("norm.weight") else tensor


GEMMA = GgufArchitecture(name="gemma", layer=LAYER, settings=_tied_settings, adjust=_adjust_gemma, is_tied=True)
GEMMA2 = GgufArchitecture(
    name="gemma2", layer=FOUR_NORMS, settings=_gemma2_settings, adjust=_adjust_gemma, is_tied=True
)
GEMMA3 = GgufArchitecture(name="gemma3", layer=FOUR_NORMS, settings=_gemma3_settings, adjust=_adjust_gemma)


PHI3_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LENGTHS = ("long", "short")
LONG = ("longrope", "su", "yarn")
"""Names of the same positions for long texts, which early folders have."""


def _phi3_settings(folder: ModelFolder, name: str) -> Settings:
    require_activation(folder, name, ("hidden_act",), ("silu",))
    window = folder.config.get("sliding_window")
    settings = shared_settings(folder, name) | {
        f"{name}.attention.sliding_window": Unsigned(folder.count("sliding_window") if window else 0),
        f"{name}.rope.dimension_count": Unsigned(_count_rotated(folder)),
        f"{name}.rope.scaling.original_context_length": Unsigned(_original(folder)),
    }
    if _is_long(folder):
        settings[f"{name}.rope.scaling.attn_factor"] = _attention_factor(folder)
    return settings


def _is_long(folder: ModelFolder) -> bool:
    """Return whether frequencies depend on the length of the text."""
    kind = rope_kind(rope_of(folder))
    if kind not in {"default", *LONG}:
        raise no_place(folder, kind)
    return kind in LONG


def _count_rotated(folder: ModelFolder) -> int:
    """Return how many of the values of a head are rotated."""
    share = {"partial_rotary_factor": folder.config.get("partial_rotary_factor", 1.0), **rope_of(folder)}
    return min(int(head_size(folder) * rope_number(folder, share, "partial_rotary_factor")), MOST)


def _original(folder: ModelFolder) -> int:
    """Return the length up to which the frequencies for short texts hold."""
    rope = rope_of(folder)
    if "original_max_position_embeddings" in rope:
        return min(int(rope_number(folder, rope, "original_max_position_embeddings")), MOST)
    return folder.count("original_max_position_embeddings", "max_position_embeddings")


def _attention_factor(folder: ModelFolder) -> float:
    """Return the factor of queries and keys, which grows with the longest text that the model was made for."""
    rope = rope_of(folder)
    if rope.get("attention_factor") is not None:
        return rope_number(folder, rope, "attention_factor")
    original = _original(folder)
    growth = folder.count("max_position_embeddings") / original
    return math.sqrt(1 + math.log(growth) / math.log(original)) if growth > 1 and original > 1 else 1.0


def _factors(folder: ModelFolder) -> Mapping[str, torch.Tensor]:
    """Return the factors of the frequencies for long and short texts, which GGUF has as tensors."""
    if not _is_long(folder):
        return {}
    rope = rope_of(folder)
    return {f"rope_factors_{kind}.weight": torch.tensor(_read_list(folder, rope, f"{kind}_factor")) for kind in LENGTHS}


def _read_list(folder: ModelFolder, rope: Rope, key: str) -> list[float]:
    values = rope.get(key)
    if not isinstance(values, list) or len(values) != _count_rotated(folder) // 2:
        raise ModelError(f"{folder.path / CONFIG}: {key} of the rotary positions is not a list for all frequencies")
    return [rope_number(folder, {key: value}, key) for value in values]


def _differences(folder: ModelFolder) -> Sequence[str]:
    sentences = list(window_difference(folder))
    if _is_long(folder):
        sentences.append(
            "llama.cpp chooses the rotary positions by its context size (--ctx-size), transformers by the length of a "
            f"text: for texts of up to {_original(folder)} tokens, start it with a context of that size at most"
        )
    return sentences


PHI3 = GgufArchitecture(
    name="phi3", layer=PHI3_LAYER, settings=_phi3_settings, added=_factors, differences=_differences
)


GPT2_LAYER = {
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
GPT2_OTHERS = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"}


def architecture_of(folder: ModelFolder) -> GgufArchitecture:
    """Return the type of a model; raise ModelError if it cannot be written as GGUF."""
    known = ARCHITECTURES.get(folder.kind)
    if known is None:
        names = ", ".join(ARCHITECTURES)
        raise ModelError(
            f"a model of type {folder.kind!r} cannot be written as GGUF; supported are {names}",
            hint=OWN_CONVERTER,
        )
    if folder.config.get("quantization_config"):
        raise ModelError(f"{folder.path} is quantised already (quantization_config), and cannot be written as GGUF")
    return known


def _gpt2_settings(folder: ModelFolder, name: str) -> Settings:
    if folder.config.get("activation_function", "gelu_new") not in ("gelu_new", "gelu_pytorch_tanh"):
        raise ModelError(f"{folder.path / CONFIG}: llama.cpp has GPT-2 with the activation gelu_new only")
    width = folder.count("n_embd")
    return {
        f"{name}.block_count": Unsigned(folder.count("n_layer")),
        f"{name}.context_length": Unsigned(folder.count("n_ctx", "n_positions")),
        f"{name}.embedding_length": Unsigned(width),
        f"{name}.feed_forward_length": Unsigned(folder.count("n_inner") if folder.config.get("n_inner") else 4 * width),
        f"{name}.attention.head_count": Unsigned(folder.count("n_head")),
        f"{name}.attention.layer_norm_epsilon": folder.number("layer_norm_epsilon", 1e-5),
    }


def _gpt2_adjust(_folder: ModelFolder, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Transpose the matrices of the layers, which transformers stores as [in, out]."""
    return tensor.T.contiguous() if name.startswith("blk.") and tensor.dim() == 2 else tensor


GPT2 = GgufArchitecture(name="gpt2", layer=GPT2_LAYER, others=GPT2_OTHERS, settings=_gpt2_settings, adjust=_gpt2_adjust)
ARCHITECTURES: Mapping[str, GgufArchitecture] = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "phi3": PHI3,
}
"""By `model_type` in a folder's config.json."""
