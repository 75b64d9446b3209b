"""Llama and its relatives: Mistral, Qwen2 and Qwen3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from railbed.errors import ModelError
from railbed.train.base.folder import ModelFolder
from railbed.train.worker.results.gguf.architecture import (
    Architecture,
    Settings,
    head_size,
    kv_heads,
    require_activation,
    shared_settings,
)
from railbed.train.worker.results.gguf.rotary import llama3_frequencies, scaled_rope

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
        return _interleaved(tensor, folder.count("num_attention_heads"))
    return _interleaved(tensor, kv_heads(folder)) if ".attn_k." in name else tensor


def _interleaved(tensor: torch.Tensor, heads: int) -> torch.Tensor:
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


LLAMA = Architecture(name="llama", layer=LAYER, settings=_settings, adjust=_adjust, added=_frequencies)
MISTRAL = Architecture(
    name="llama", layer=LAYER, settings=_settings, adjust=_adjust, added=_frequencies, differences=window_difference
)
QWEN2 = Architecture(name="qwen2", layer=LAYER, settings=_settings)
QWEN3 = Architecture(name="qwen3", layer=LAYER, settings=_settings)
