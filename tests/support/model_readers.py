"""Readers of the files in a model's or an adapter's folder, and of messages from the programs that use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic_core import to_json

from railbed.errors import UserError
from railbed.launch.messages import decode
from railbed.train.base.files import chat_template
from railbed.train.base.folder import ModelFolder
from railbed.train.generate import record_of
from railbed.train.results.adapter import AdapterFolder
from railbed.train.worker.io.tensorfile import Weights
from railbed.train.worker.results.gguf.architectures import architecture_of
from railbed.train.worker.results.gguf.tokenizerfile import TokenizerFile
from railbed.train.worker.results.gguf.vocabulary import name_in_file, vocabulary_differences, vocabulary_settings

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "vocab_size": 8,
    "eos_token_id": [0, 2],
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 1e4,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 8}
TOKENIZER = {
    "added_tokens": [{"id": 0, "content": "<end>", "special": True}, {"id": 6, "content": "x", "special": False}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<end>"}}]},
    "model": {"type": "BPE", "vocab": {"<end>": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b", ["a", "b"]]},
}
PIECES = {
    text: number for number, text in enumerate(["<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"])
}
SPM = {
    "added_tokens": [{"id": 0, "content": "<s>", "special": True, "normalized": True}],
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    },
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
    },
    "model": {"type": "BPE", "byte_fallback": True, "vocab": PIECES, "merges": [["▁", "a"]]},
}
METASPACE = {
    **SPM,
    "normalizer": None,
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
}
GEMMA2 = {
    **CONFIG,
    "model_type": "gemma2",
    "hidden_activation": "gelu_pytorch_tanh",
    "rope_parameters": None,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
GEMMA3 = {
    **GEMMA2,
    "model_type": "gemma3_text",
    "layer_types": ["sliding_attention"] * 2,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}},
}
PHI3 = {
    **CONFIG,
    "model_type": "phi3",
    "sliding_window": 64,
    "original_max_position_embeddings": 32,
    "rope_scaling": {"type": "su", "long_factor": [1.5] * 8, "short_factor": [1.0] * 8},
    "rope_parameters": None,
}
ADAPTER = {"peft_type": "LORA", "lora_alpha": 8, "r": 4, "base_model_name_or_path": "/nowhere"}
NOTES = {"base": {"path": "/nowhere", "digest": "", "quantisation": "nf4", "double": True, "compute_dtype": "float32"}}
MESSAGES = (
    {"kind": "progress", "message": "loading"},
    {
        "kind": "model",
        "architecture": "GPT-2",
        "parameters": 5,
        "folder": "/x",
        "device": "cpu",
        "precision": "float32",
    },
    {"kind": "piece", "prompt": 0, "when": "before", "text": "a"},
    {"kind": "generated", "prompt": 0, "text": "ab", "tokens": [1, 2], "stop": "end", "seconds": 0.5},
)
ReadText = Callable[[str], object]


def model_readers(folder: Path) -> Iterator[tuple[str, ReadText, list[str]]]:
    """Yield the name of each reader, the reader, and what it is meant to read."""
    place = folder / "some-model"
    place.mkdir()

    def with_file(name: str, read: Callable[[], object]) -> ReadText:
        def read_text(text: str) -> None:
            before = (place / name).read_bytes() if (place / name).exists() else None
            (place / name).write_text(text, encoding="utf-8", errors="replace")
            with suppress(UserError):
                read()
            if before is None:
                (place / name).unlink()
            else:
                (place / name).write_bytes(before)

        return read_text

    (place / "config.json").write_text(json.dumps(CONFIG))
    (place / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (place / "adapter_model.safetensors").write_bytes(b"")
    (place / "adapter_config.json").write_text(json.dumps(ADAPTER))

    def config() -> None:
        model = ModelFolder.open(place)
        to_json([model.ends, model.context])
        architecture = architecture_of(model)
        architecture.settings(model, architecture.name)
        architecture.added(model)
        architecture.differences(model)

    def tokenizer() -> None:
        content = TokenizerFile.open(place)
        vocabulary_differences(content)
        name_in_file(content, "phi3")
        vocabulary_settings(content, 300, {1})

    configs = [CONFIG, {**CONFIG, "rope_parameters": YARN, "model_type": "qwen2"}, GPT2, GEMMA2, GEMMA3, PHI3]
    tokens = {"eos_token": "<end>", "bos_token": {"content": "a"}, "chat_template": [{"name": "x", "template": "y"}]}
    yield "model's config", with_file("config.json", config), [json.dumps(content) for content in configs]
    yield (
        "model's tokenizer",
        with_file("tokenizer.json", tokenizer),
        [json.dumps(content) for content in (TOKENIZER, SPM, METASPACE)],
    )
    settings = with_file(
        "tokenizer_config.json", lambda: (chat_template(place), vocabulary_settings(TokenizerFile.open(place), 8))
    )
    yield "tokenizer's settings", settings, [json.dumps(tokens)]
    index = json.dumps({"metadata": {}, "weight_map": {"a": "b.safetensors"}})
    yield "index of weights", with_file("model.safetensors.index.json", lambda: Weights(place)), [index]
    yield "adapter's config", with_file("adapter_config.json", lambda: AdapterFolder.open(place)), [json.dumps(ADAPTER)]
    yield "adapter's notes", with_file("railbed.json", lambda: AdapterFolder.open(place)), [json.dumps(NOTES)]

    def message(text: str) -> None:
        decoded = decode(text.encode("utf-8", "replace"))
        if decoded is not None:
            to_json(record_of("node1", decoded, ["a prompt"]))

    yield "message of a generator", message, [json.dumps(content) for content in MESSAGES]
