"""The files of an exported adapter other than its weights: PEFT's configuration, railbed's notes, and a card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.train.base.folder import read_folder
from railbed.train.models.pretrained import PretrainedSettings, targets_of
from railbed.train.recipe import Recipe

CONFIG, WEIGHTS, NOTES, CARD = "adapter_config.json", "adapter_model.safetensors", "railbed.json", "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What an adapter was trained on."""

    recipe: Recipe
    """As the user wrote it: its path is that of the machine that started the run."""
    folder: Path
    """The base model on this machine."""
    digest: str
    """Hash of the base model's files; empty if it was not copied by railbed."""
    compute_dtype: str
    """Number format of the computation, as torch names it."""
    step: int

    @property
    def model(self) -> PretrainedSettings:
        """Return the model's section of the recipe."""
        assert isinstance(self.recipe.model, PretrainedSettings)
        return self.recipe.model


def adapter_files(origin: Origin) -> dict[str, str]:
    """Return the content of each file."""
    return {
        CONFIG: json.dumps(_configuration(origin), indent=2) + "\n",
        NOTES: json.dumps(_notes(origin), indent=2) + "\n",
        CARD: _card(origin),
    }


def exported_name(name: str) -> str:
    """Return the name under which PEFT stores a trained parameter of the worker's model."""
    stored = name.removeprefix("causal.").replace(".default.weight", ".weight")
    return stored.removesuffix(".weight") if "lora_magnitude_vector" in stored else stored


def _configuration(origin: Origin) -> dict[str, Any]:
    model, folder = origin.model, read_folder(origin.folder)
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.path,
        "inference_mode": True,
        "r": model.lora.rank,
        "lora_alpha": model.lora.alpha,
        "lora_dropout": model.lora.dropout,
        "target_modules": list(targets_of(folder, model)),
        "use_dora": model.lora.dora,
        "use_rslora": model.lora.rslora,
        "bias": "none",
        "fan_in_fan_out": folder.is_transposed,
    }


def _notes(origin: Origin) -> dict[str, Any]:
    model = origin.model
    base = {
        "path": model.path,
        "digest": origin.digest,
        "quantisation": model.quantisation,
        "double": model.quantisation == "nf4" and model.double_quantisation,
        "compute_dtype": origin.compute_dtype,
    }
    return {"base": base, "recipe": origin.recipe.to_plain(), "step": origin.step}


def _card(origin: Origin) -> str:
    recipe, model = origin.recipe, origin.model
    quantised = {"none": origin.compute_dtype, "int8": "8-bit (LLM.int8)", "nf4": "4-bit (nf4)"}[model.quantisation]
    form = "DoRA" if model.lora.dora else "LoRA"
    rows = {
        "base model": model.path,
        "base weights during training": quantised,
        "adapters": f"{form}, rank {model.lora.rank}, alpha {model.lora.alpha:g}, dropout {model.lora.dropout:g}",
        "layers": ", ".join(targets_of(read_folder(origin.folder), model)),
        "steps": f"{origin.step} of {recipe.steps}, {recipe.batch.sequences} sequences of up to {model.context} tokens",
        "learning rate": f"{recipe.optimiser.learning_rate:g}, {recipe.optimiser.warmup_steps} steps of warm-up",
        "seed": recipe.seed,
        "data": ", ".join(Path(file).name for file in recipe.data.files) or "the source of Python's standard library",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""---
library_name: peft
pipeline_tag: text-generation
---

# Adapter trained with railbed

{recipe.description}

| | |
|---|---|
{table}

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained({model.path!r}), "FOLDER OF THIS FILE")
```

It was trained against the base weights as they are described above. Merge it onto exactly those: for a quantised base,
onto the dequantised weights. `{NOTES}` has the complete recipe.
"""
