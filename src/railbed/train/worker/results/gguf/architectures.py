"""Types of models that can be written as GGUF, by the name that transformers has for them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import ModelFolder
from railbed.train.worker.results.gguf.architecture import Architecture, Settings
from railbed.train.worker.results.gguf.container import Unsigned
from railbed.train.worker.results.gguf.gemma import GEMMA, GEMMA2, GEMMA3
from railbed.train.worker.results.gguf.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from railbed.train.worker.results.gguf.phi3 import PHI3
from railbed.train.worker.results.gguf.tokenizerfile import OWN_CONVERTER

GPT2_LAYER = {
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
GPT2_OTHERS = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"}


def architecture_of(folder: ModelFolder) -> Architecture:
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


GPT2 = Architecture(name="gpt2", layer=GPT2_LAYER, others=GPT2_OTHERS, settings=_gpt2_settings, adjust=_gpt2_adjust)
ARCHITECTURES: Mapping[str, Architecture] = {
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
