"""Models from elsewhere and adapters for them, through transformers and peft. No code of a model is run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from railbed.errors import ModelError, UsageError
from railbed.train.base.files import TOKENIZER
from railbed.train.base.folder import ModelFolder
from railbed.train.data.chat import ChatTemplate, TemplateRefused
from railbed.train.data.chatprocess import TemplateProcess
from railbed.train.results.adapter import AdapterFolder, Base
from railbed.train.worker.hardware import processor_has
from railbed.train.worker.io.tensorfile import Weights, open_tensors
from railbed.train.worker.models.base import Scorer
from railbed.train.worker.models.pretrained import compute_plainly
from railbed.train.worker.results.serve import library
from railbed.train.worker.results.speaker import Speaker, When

LOCAL = {"local_files_only": True, "trust_remote_code": False}


class PretrainedScorer(Scorer):
    """Scores the next token with transformers' own cache of keys and values."""

    def __init__(self, model: Any, context: int | None) -> None:  # noqa: ANN401 -- one of hundreds of classes
        self._model, self._past, self.context = model, None, context

    def restart(self) -> None:
        """Forget all tokens."""
        self._past = None

    @torch.inference_mode()
    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the scores after some more tokens."""
        unread = torch.tensor([list(tokens)], device=self._model.device)
        output = self._model(input_ids=unread, past_key_values=self._past, use_cache=True)
        self._past = output.past_key_values
        scores: torch.Tensor = output.logits[0, -1].float()
        return scores


class PretrainedSpeaker(Speaker):
    """A model that transformers loads, perhaps with an adapter."""

    def __init__(self, folder: ModelFolder, device: torch.device, adapter: AdapterFolder | None = None) -> None:
        base = adapter.base if adapter else Base(path=folder.path)
        self._model = load(folder, base, device, as_stored=adapter is None)
        path = _tokenizer_folder(folder, adapter)
        self._template = ChatTemplate.of(path)  # refuses a damaged file in one sentence
        self._tokenizer = _tokenizer(path)
        if adapter:
            open_tensors(adapter.path / "adapter_model.safetensors")
            self._model = library("peft").PeftModel.from_pretrained(self._model, str(adapter.path), **LOCAL)
            self.base = str(folder.path)
        self._model.eval()
        self._has_adapter = adapter is not None
        self.scorer = PretrainedScorer(self._model, folder.context)
        self.is_chat = self._template is not None
        end = self._tokenizer.eos_token_id
        self.ends = folder.ends | ({end} if isinstance(end, int) else frozenset())
        self.architecture = folder.architecture
        self.parameters = int(self._model.num_parameters())
        self.device, self.precision = str(device), _precision(self._model, base)

    def encode(self, prompt: str, *, chat: bool) -> list[int]:
        """Return the tokens of a prompt; with `chat`, as a user's message in the chat template."""
        if chat:
            if self._template is None:
                raise UsageError("the tokenizer of this model has no chat template", hint="leave --chat out")
            return self._from_template(self._template, prompt)
        start = self._tokenizer.bos_token_id
        tokens: list[int] = self._tokenizer(prompt)["input_ids"] if prompt else []
        if not tokens and start is None:
            raise UsageError("this model needs a prompt: its tokenizer has no token that begins a text")
        return tokens or [start]

    def _from_template(self, template: ChatTemplate, prompt: str) -> list[int]:
        """Put a prompt into the model's template, which is a program and runs within limits."""
        try:
            with TemplateProcess(template, prompts=True) as process:
                ((text, _),) = process.render([[{"role": "user", "content": prompt}]])
        except TemplateRefused as refusal:
            raise ModelError(f"this model cannot be given a prompt: {refusal}", hint="use --no-chat") from None
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def as_of(self, when: When) -> AbstractContextManager[object]:
        """Switch the adapter off for `before`."""
        if when == "before" and self._has_adapter:
            context: AbstractContextManager[object] = self._model.disable_adapter()
            return context
        return nullcontext()


def load(folder: ModelFolder, base: Base, device: torch.device, *, as_stored: bool) -> Any:  # noqa: ANN401 -- as above
    """Return a model as it was loaded for training, or, `as_stored`, in the type of its weights."""
    transformers = library("transformers")
    Weights(folder.path)  # refuses damaged and missing files in one sentence
    dtype = _stored_type(folder, device) if as_stored else getattr(torch, base.compute_dtype)
    options: dict[str, Any] = {"dtype": dtype, "device_map": {"": str(device)}, "use_safetensors": True}
    if base.quantisation != "none":
        library("bitsandbytes")
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=base.quantisation == "nf4",
            load_in_8bit=base.quantisation == "int8",
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=base.double,
            bnb_4bit_compute_dtype=getattr(torch, base.compute_dtype),
        )
    elif device.type == "cpu":
        del options["device_map"]  # needs accelerate, which nothing else here does
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(str(folder.path), **options, **LOCAL)
    except (ValueError, KeyError, ImportError, RuntimeError, OSError) as error:
        raise _explain(folder, error) from None
    compute_plainly(model)
    return model


def _explain(folder: ModelFolder, error: Exception) -> ModelError:
    if isinstance(error, ValueError) and ("model_type" in str(error) or "architecture" in str(error)):
        return ModelError(f"{folder.path} has a model of type {folder.kind!r}, which this transformers does not have")
    return ModelError(f"{folder.path} cannot be loaded: {' '.join(str(error).split())[:300]}")


def _stored_type(folder: ModelFolder, device: torch.device) -> torch.dtype:
    """Return the type to compute in: that of the weights, but fp32 on processors that are slow with 16 bits."""
    name = folder.config.get("dtype") or folder.config.get("torch_dtype")
    stored = getattr(torch, name) if name in ("float32", "float16", "bfloat16") else torch.float32
    if device.type == "cpu" and stored != torch.float32 and not processor_has(stored):
        return torch.float32
    return stored


def _tokenizer_folder(folder: ModelFolder, adapter: AdapterFolder | None) -> Path:
    """Return the folder of the tokenizer: the adapter's if it has one, otherwise the model's."""
    return adapter.path if adapter and (adapter.path / TOKENIZER).is_file() else folder.path


def _tokenizer(path: Path) -> Any:  # noqa: ANN401 -- one of many classes
    try:
        return library("transformers").AutoTokenizer.from_pretrained(str(path), **LOCAL)
    except (ValueError, KeyError, ImportError, OSError, TypeError) as error:
        raise ModelError(f"{path} has no usable tokenizer: {' '.join(str(error).split())[:200]}") from None


def _precision(model: Any, base: Base) -> str:  # noqa: ANN401 -- as above
    computed = str(model.dtype).removeprefix("torch.")
    return computed if base.quantisation == "none" else f"{base.quantisation}, {base.compute_dtype}"
