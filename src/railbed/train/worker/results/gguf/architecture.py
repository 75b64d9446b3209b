"""What a type of model is in GGUF: names of its tensors and settings, and how llama.cpp wants the tensors laid out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from railbed.errors import ModelError
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import ModelFolder
from railbed.train.worker.results.gguf.container import Setting, Unsigned
from railbed.train.worker.results.gguf.rotary import rope_of, theta_of

LAYER = re.compile(r"(?:model\.layers|(?:transformer\.)?h)\.(\d{1,5})\.(.+)")
IGNORED = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Tensors of old folders that follow from the settings."""
HEAD = "lm_head.weight"
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
Settings = dict[str, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufArchitecture:
    """A type of model."""

    name: str
    """Its name in llama.cpp."""
    layer: Mapping[str, str]
    others: Mapping[str, str] = field(default_factory=lambda: OTHERS)
    settings: Callable[[ModelFolder, str], Settings]
    adjust: Callable[[ModelFolder, str, torch.Tensor], torch.Tensor] = lambda _folder, _name, tensor: tensor
    """Returns a tensor, by its name in GGUF, as llama.cpp wants it."""
    added: Callable[[ModelFolder], Mapping[str, torch.Tensor]] = lambda _folder: {}
    """Returns tensors that the folder has as settings."""
    is_tied: bool = False
    """Whether llama.cpp always scores tokens with the matrix that embeds them."""
    differences: Callable[[ModelFolder], Sequence[str]] = lambda _folder: ()
    """Returns sentences about what llama.cpp computes differently from transformers."""

    def rename(self, name: str) -> str | None:
        """Return the name of a tensor in GGUF; None if it is not needed there."""
        if name.endswith(IGNORED) or (self.is_tied and name == HEAD):
            return None
        module, _, kind = name.rpartition(".")
        layer = LAYER.fullmatch(module)
        own = self.layer.get(layer[2]) if layer else self.others.get(module.removeprefix("transformer."))
        if own is None or kind not in {"weight", "bias"}:
            raise ModelError(f"the tensor {name[:100]} has no place in a GGUF file of type {self.name}")
        return f"blk.{int(layer[1])}.{own}.{kind}" if layer else f"{own}.{kind}"


def shared_settings(folder: ModelFolder, name: str, rope_part: str | None = None) -> Settings:
    """Return the settings that models with rotary positions have in common."""
    size = head_size(folder)
    return {
        f"{name}.block_count": Unsigned(folder.count("num_hidden_layers")),
        f"{name}.context_length": Unsigned(folder.count("max_position_embeddings")),
        f"{name}.embedding_length": Unsigned(folder.count("hidden_size")),
        f"{name}.feed_forward_length": Unsigned(folder.count("intermediate_size")),
        f"{name}.attention.head_count": Unsigned(folder.count("num_attention_heads")),
        f"{name}.attention.head_count_kv": Unsigned(kv_heads(folder)),
        f"{name}.attention.layer_norm_rms_epsilon": folder.number("rms_norm_eps", 1e-6),
        f"{name}.attention.key_length": Unsigned(size),
        f"{name}.attention.value_length": Unsigned(size),
        f"{name}.rope.dimension_count": Unsigned(size),
        f"{name}.rope.freq_base": theta_of(folder, rope_of(folder, rope_part)),
        f"{name}.vocab_size": Unsigned(folder.count("vocab_size")),
    }


def require_activation(folder: ModelFolder, name: str, keys: Sequence[str], accepted: Sequence[str]) -> None:
    """Raise ModelError unless the activation, by the first of the keys that is set, is the one that llama.cpp has."""
    activation = next((folder.config[key] for key in keys if folder.config.get(key) is not None), accepted[0])
    if activation not in accepted:
        raise ModelError(
            f"{folder.path / CONFIG}: llama.cpp has models of type {name} with the activation {accepted[0]} only"
        )


def kv_heads(folder: ModelFolder) -> int:
    """Return the number of heads of keys and values."""
    return folder.count("num_key_value_heads", "num_attention_heads")


def head_size(folder: ModelFolder) -> int:
    """Return the width of a head."""
    if folder.config.get("head_dim"):
        return folder.count("head_dim")
    return folder.count("hidden_size") // folder.count("num_attention_heads")
