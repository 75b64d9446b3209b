"""Tiny models with random weights, and a tokenizer of their own, as folders of Hugging Face."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.smallmodel import recipe

WIDTHS = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
PLAIN = {key: value for key, value in WIDTHS.items() if key != "num_key_value_heads"}
KINDS: dict[str, dict[str, Any]] = {
    "llama": WIDTHS,
    "qwen3": {**WIDTHS, "head_dim": 12, "tie_word_embeddings": True},
    "qwen2": WIDTHS,
    "mistral": {**WIDTHS, "sliding_window": 8},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},
    "phi": PLAIN,
    "gemma": {**WIDTHS, "head_dim": 12},
}
TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = "the rail carries gradients between nodes and a switch counts every pause frame it sends to the other side"
WORDS = TEXT.split()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@cache
def _tokenizer() -> str:
    import tokenizers as tools

    tokenizer = tools.Tokenizer(tools.models.BPE())
    tokenizer.pre_tokenizer = tools.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tools.decoders.ByteLevel()
    trainer = tools.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=SPECIAL,
        initial_alphabet=tools.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)], trainer)
    return str(tokenizer.to_str())


def write_tokenizer(folder: Path, *, template: str | None = TEMPLATE) -> None:
    """Write a tokenizer, with a chat template unless it is None."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(_tokenizer())
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": None}
    chat = {} if template is None else {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps({**about, **chat}))


def write_base(folder: Path, kind: str = "llama", **changes: Any) -> Path:
    """Write a model with random weights; return its folder."""
    import torch
    import transformers

    write_tokenizer(folder)
    settings = {**KINDS[kind], "vocab_size": 320, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0, **changes}
    config = transformers.AutoConfig.for_model(kind, **settings)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        auto: Any = transformers.AutoModelForCausalLM
        model = auto.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0.0, 0.1)
    model.save_pretrained(folder)
    return folder


def conversation(number: int) -> dict[str, Any]:
    """Return a conversation whose answers depend on its questions; lengths differ."""
    turns = []
    for turn in range(1 + number % 2):
        start = (7 * number + turn) % len(WORDS)
        question = WORDS[start : start + 2 + number % 5]
        turns.append({"role": "user", "content": " ".join(question)})
        turns.append({"role": "assistant", "content": " ".join(reversed(question)) + " so"})
    return {"messages": turns}


def write_conversations(path: Path, count: int = 60) -> Path:
    """Write conversations as JSONL."""
    path.write_text("".join(json.dumps(conversation(number)) + "\n" for number in range(count)))
    return path


def tuning(base: Path, files: list[Path], **changes: Any) -> dict[str, Any]:
    """Return a small recipe that tunes a model, with changes; maps are merged."""
    model = {"family": "pretrained", "path": str(base), "context": 96, "vocabulary": "auto"}
    optimiser = {"learning_rate": 5e-3, "weight_decay": 0.0, **changes.get("optimiser", {})}
    plain = recipe(**{"steps": 12, **changes, "optimiser": optimiser})
    own = changes.get("model", {})
    return {
        **plain,
        "model": {**model, **own, "lora": {"rank": 4, "alpha": 8.0, **own.get("lora", {})}},
        "data": {**plain["data"], "files": [str(file) for file in files], "sample": 0},
    }
