"""Adapters made with plain peft on tiny models, as railbed's fine-tuning leaves them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from railbed.train.base.folder import ModelFolder
from tests.support.tinymodels import compute_in_fp32, transformers

TARGETS = {
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
}


@dataclass(frozen=True)
class Trained:
    """A model with an adapter, live in memory, and the adapter's folder."""

    model: Any
    adapter: Path

    @torch.inference_mode()
    def scores(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the model as trained."""
        scores: torch.Tensor = self.model(tokens).logits.float()
        return scores

    def scores_before(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores without the adapter."""
        with self.model.disable_adapter():
            return self.scores(tokens)


def write_adapter(base: Path, folder: Path, quantisation: str, *, double: bool = False, **options: Any) -> Trained:
    """Write an adapter with random weights for a model, which is quantised as for training."""
    peft: Any = import_module("peft")
    kind = json.loads((base / "config.json").read_text())["model_type"]
    loading: dict[str, Any] = {"dtype": torch.float32}
    if quantisation != "none":
        loading["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=quantisation == "nf4",
            load_in_8bit=quantisation == "int8",
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=double,
            bnb_4bit_compute_dtype=torch.float32,
        )
        loading["device_map"] = {"": "cpu"}
    model = transformers.AutoModelForCausalLM.from_pretrained(base, **loading)
    compute_in_fp32(model)
    targets = TARGETS.get(kind, TARGETS["llama"])
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM", **options)
    torch.manual_seed(11)
    tuned = peft.get_peft_model(model, settings)
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if "lora_magnitude" in name:
                parameter.mul_(1 + 0.1 * torch.randn_like(parameter))
            elif parameter.requires_grad:
                parameter.normal_(0.0, 0.1)
    tuned.eval()
    tuned.save_pretrained(folder)
    about = {
        "path": str(base),
        "digest": ModelFolder.open(base).digest(),
        "quantisation": quantisation,
        "double": double,
    }
    notes = {"base": {**about, "compute_dtype": "float32"}, "recipe": {}}
    (folder / "railbed.json").write_text(json.dumps(notes))
    return Trained(tuned, folder)
