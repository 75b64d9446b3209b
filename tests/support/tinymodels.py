"""Tiny models with random weights and their own tokenizers, in Hugging Face's layout."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from railbed.train.data.tokenizer import END_OF_TEXT, train_tokenizer
from railbed.train.models.gpt import GptSettings
from railbed.train.worker.io.export import export
from railbed.train.worker.models.base import BuildOptions
from railbed.train.worker.models.gpt import Gpt
from tests.support.spm import write_spm

transformers: Any = import_module("transformers")
"""Without types: mypy would read all of it, for minutes."""
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
GEMMA = {**LLAMA, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 16}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", LLAMA),
    "mistral": ("MistralConfig", {**LLAMA, "sliding_window": 16}),
    "qwen2": ("Qwen2Config", LLAMA),
    "qwen3": ("Qwen3Config", {**LLAMA, "head_dim": 24}),
    "gpt2": ("GPT2Config", GPT2),
    "gemma": ("GemmaConfig", {**LLAMA, "head_dim": 32}),
    "gemma2": ("Gemma2Config", GEMMA),
    "gemma3_text": ("Gemma3TextConfig", {**GEMMA, "num_hidden_layers": 7}),
    "phi3": ("Phi3Config", {**LLAMA, "original_max_position_embeddings": 128}),
}


def text() -> str:
    """Return a text to train a tokenizer on."""
    return "".join(f"{n} grüne Flaschen hang on wall {n * n % 97}, isn't it?\n" for n in range(300))


def write_tokenizer(folder: Path, *, chat: bool = False) -> int:
    """Write a byte-level BPE; return the size of its vocabulary."""
    tokenizer = train_tokenizer([text()], 400)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT, "bos_token": END_OF_TEXT}
    if chat:
        about["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return int(tokenizer.get_vocab_size())


def write_model(
    folder: Path, kind: str, *, chat: bool = False, style: str = "", scale: float = 0.3, **changes: Any
) -> Path:
    """Write a model with random weights, large enough for its scores to differ; `style` is that of the tokenizer."""
    folder.mkdir(parents=True)
    vocabulary = write_spm(folder, style, chat=chat) if style else write_tokenizer(folder, chat=chat)
    name, settings = CONFIGS[kind]
    config = getattr(transformers, name)(
        **{**settings, "vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None, **changes}
    )
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, scale)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder


def own_folder(folder: Path, *, context: int = 96) -> Path:
    """Write an exported model of railbed's own, with random weights."""
    (folder / "tokens").mkdir(parents=True)
    vocabulary = write_tokenizer(folder / "tokens")
    settings = GptSettings(layers=2, heads=4, width=64, context=context, vocabulary=vocabulary)
    model = Gpt.build(settings, BuildOptions(device=torch.device("cpu")))
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)
    export(model, folder / "model", tokens=folder / "tokens", end_of_text=0, step=1)
    return folder / "model"


def compute_in_fp32(model: Any) -> None:
    """Keep bitsandbytes from computing in bf16 without gradients, as it does on processors with AVX512-BF16."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
