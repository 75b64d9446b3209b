"""The weights as `transformers` loads them: GPT2LMHeadModel, with its configuration and the tokenizer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from railbed.train.state.checkpoints import seal, sync_folder, write_synced
from railbed.train.worker.io.tensorfile import write_tensors
from railbed.train.worker.models.gpt import Gpt

TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
"""The original keeps these as [in, out]."""
WEIGHTS = "model.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def export(model: Gpt, folder: Path, *, tokens: Path, end_of_text: int, step: int) -> None:
    """Write the folder anew: beside, with the sums of its files, then renamed into place.

    Raise OSError (a full disk, say) with everything as it was before.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        text = json.dumps(configuration(model, end_of_text), indent=2) + "\n"
        files = {
            WEIGHTS: write_tensors(beside / WEIGHTS, hugging_face_tensors(model), {"format": "pt"}),
            "config.json": write_synced(beside / "config.json", text.encode()),
        }
        for name in TOKENIZER_FILES:
            if (tokens / name).exists():
                files[name] = write_synced(beside / name, (tokens / name).read_bytes())
        seal(beside, step, files)
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def hugging_face_tensors(model: Gpt) -> dict[str, torch.Tensor]:
    """Return the parameters under the names, and in the layout, of transformers."""
    tensors = {}
    for name, parameter in model.named_parameters():
        named = "transformer." + name.replace(".c_fc.", ".mlp.c_fc.").replace(".c_proj.", ".mlp.c_proj.")
        named = named.replace(".attn.mlp.", ".attn.")
        tensor = parameter.detach()[: model.shape.vocabulary] if name == "wte.weight" else parameter.detach()
        tensors[named] = (tensor.T if named.endswith(TRANSPOSED) else tensor).cpu().contiguous()
    return tensors


def configuration(model: Gpt, end_of_text: int) -> dict[str, object]:
    """Return what stands in config.json."""
    shape = model.shape
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "n_embd": shape.width,
        "n_head": shape.heads,
        "n_layer": shape.layers,
        "n_positions": shape.context,
        "vocab_size": shape.vocabulary,
        "embd_pdrop": shape.dropout,
        "attn_pdrop": shape.dropout,
        "resid_pdrop": shape.dropout,
        "layer_norm_epsilon": 1e-05,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }
