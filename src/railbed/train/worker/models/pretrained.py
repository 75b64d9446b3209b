"""A decoder from a folder, loaded by transformers, with adapters by peft; trained by railbed's own step.

Weights come from the folder alone: no hub is contacted, no code of the folder runs, and only safetensors are read.
Trained parameters are fp32; a frozen base has the type of the computation, or is quantised by bitsandbytes.

Quantised layers compute the same on every processor.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from railbed.errors import RankFailed
from railbed.train.base.folder import read_folder
from railbed.train.models.pretrained import PretrainedSettings, targets_of
from railbed.train.worker.io.corpus import IGNORED
from railbed.train.worker.models.base import BuildOptions, LanguageModel
from railbed.train.worker.models.loss import head_loss

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

REARRANGES = "support_avx512bf16_for_cpu"


def silence_warnings() -> None:
    """Hide that bitsandbytes looks for a kernel on a hub when it is imported; `compute_plainly` does without it."""
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def compute_plainly(model: nn.Module) -> None:
    """Keep the weights of layers with 4 bits as they were stored, on processors with AVX512-BF16 too.

    There, bitsandbytes would rearrange them at the first pass without gradients. From then on no gradient passes
    through the layer, sums are rounded to bf16, and widths that are no multiple of 32 fail.
    """
    for module in model.modules():
        if hasattr(module, REARRANGES):
            setattr(module, REARRANGES, False)


OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
PROBE_TOKENS = 3
"""Length of the two documents with which a model is tested after loading."""
CLOSE = 0.02
"""How far two results may be apart that are equal but for rounding, in bf16, relative to the largest."""


def library(name: str) -> Any:  # noqa: ANN401 -- a module without usable types
    """Import a library of the extra `tune`, so that it contacts no hub."""
    os.environ.update(OFFLINE)
    silence_warnings()
    module = importlib.import_module(name)
    if name == "transformers":
        module.utils.logging.set_verbosity_error()
        module.utils.logging.disable_progress_bar()
    return module


class Pretrained(LanguageModel):
    """A decoder from a folder."""

    settings: PretrainedSettings

    def __init__(self, settings: PretrainedSettings, options: BuildOptions) -> None:
        super().__init__(settings, options)
        self._options = options
        folder = read_folder(settings.base_folder)
        self.vocabulary = folder.vocabulary
        self.causal = _load(settings, options)
        if settings.tuning == "lora":
            self.causal = self._adapt(self.causal)
        for name, parameter in self.named_parameters():
            if parameter.requires_grad and parameter.dtype != torch.float32:
                raise RankFailed(f"{name} is trained in {parameter.dtype}, not in fp32", refused=True)
        if options.gradient_checkpointing:
            # Newer versions of transformers warn of the old name.
            enable = getattr(self._base, "activation_checkpointing_enable", None)
            (enable or self._base.gradient_checkpointing_enable)({"use_reentrant": False})
        self.separates, self._plain_head = self._probe()
        self.train()

    @classmethod
    def build(cls, settings: Any, options: BuildOptions) -> Self:  # noqa: ANN401 -- the family's own settings
        """Return the model as it is in the folder, with new adapters."""
        return cls(settings, options)

    @property
    def _base(self) -> Any:  # noqa: ANN401 -- a model of transformers
        causal: Any = self.causal
        return causal.get_base_model() if self.settings.tuning == "lora" else causal

    def _adapt(self, causal: nn.Module) -> nn.Module:
        settings, peft = self.settings, library("peft")
        folder = read_folder(settings.base_folder)
        config = peft.LoraConfig(
            task_type="CAUSAL_LM",
            r=settings.lora.rank,
            lora_alpha=settings.lora.alpha,
            lora_dropout=settings.lora.dropout,
            target_modules=list(targets_of(folder, settings)),
            use_dora=settings.lora.dora,
            use_rslora=settings.lora.rslora,
            bias="none",
            fan_in_fan_out=folder.is_transposed,
        )
        causal.requires_grad_(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft uses what transformers will remove
            adapted: nn.Module = peft.get_peft_model(causal, config, autocast_adapter_dtype=True)
        return adapted

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Give adapters their initial values: the first matrix random, the second zero, so that nothing changes yet."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if "lora_A" in name:
                bound = math.sqrt(1.0 / parameter.shape[1])  # that of Kaiming's uniform distribution, as peft has it
                parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))
            elif "lora_B" in name:
                parameter.zero_()

    def _computing(self) -> AbstractContextManager[object]:
        """Return the context of a forward pass: trained fp32 weights are cast to the type of the computation."""
        if self._options.compute != torch.float32:
            return torch.autocast(self._options.device.type, dtype=self._options.compute)
        return nullcontext()

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return the input of the head, [batch, length, width]."""
        output: torch.Tensor = self._base.base_model(
            input_ids=tokens, position_ids=positions, use_cache=False
        ).last_hidden_state
        return output

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the scores of positions, with what architectures do to them after the head."""
        config = self._base.config
        result: torch.Tensor = self._base.get_output_embeddings()(hidden)
        if limit := getattr(config, "final_logit_softcapping", None):
            result = torch.tanh(result / limit) * limit
        if scale := getattr(config, "logit_scale", None):
            result = result * scale
        if divisor := getattr(config, "logits_scaling", None):
            result = result / divisor
        return result

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the sum of the losses of all targets that are trained, in fp32."""
        trained = targets != IGNORED
        if not self.separates and positions is not None and bool((trained & ((positions == 0).cumsum(1) > 1)).any()):
            name = type(self._base).__name__
            hint = "--set data.packed=false gives every document its own sequence"
            raise RankFailed(f"{name} does not keep the documents of a sequence apart; {hint}", refused=True)
        with self._computing():
            if not self._plain_head:
                scores = self._base(input_ids=tokens, position_ids=positions, use_cache=False).logits[trained]
                return torch.nn.functional.cross_entropy(scores.float(), targets[trained], reduction="sum")
            hidden = self.hidden(tokens, positions)[trained]
            own = [p for p in self._base.get_output_embeddings().parameters() if p.requires_grad]
            return head_loss(hidden, targets[trained], self.scores, vocabulary=self.vocabulary, parameters=own)

    def as_loaded(self) -> AbstractContextManager[object] | None:
        """Return a context without adapters."""
        causal: Any = self.causal
        context: AbstractContextManager[object] | None = None
        if self.settings.tuning == "lora":
            context = causal.disable_adapter()
        return context

    def next_scores(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores after the last token."""
        scores: torch.Tensor = self._base(input_ids=tokens, use_cache=False).logits[0, -1]
        return scores

    @torch.no_grad()
    def _probe(self) -> tuple[bool, bool]:
        """Return whether the model keeps packed documents apart, and whether `scores` is what its head computes."""
        self.eval()
        document = torch.arange(1, PROBE_TOKENS + 1) % self.vocabulary
        tokens = document.repeat(2).unsqueeze(0).to(self._options.device)
        positions = torch.arange(PROBE_TOKENS).repeat(2).unsqueeze(0).to(self._options.device)
        with self._computing():
            hidden = self.hidden(tokens, positions)
            ours = self.scores(hidden)
            theirs = self._base(input_ids=tokens, position_ids=positions, use_cache=False).logits
        if not bool(torch.isfinite(ours).all()):
            sentence = f"the values of the {type(self._base).__name__} are not finite in {self._options.compute}"
            raise RankFailed(sentence, hint="--set precision=fp32 has a larger range than fp16", refused=True)
        first, second = hidden[0, :PROBE_TOKENS], hidden[0, PROBE_TOKENS:]
        return _close(first, second), _close(ours, theirs)


def _close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return bool((first - second).abs().max() <= CLOSE * second.abs().max())


def _load(settings: PretrainedSettings, options: BuildOptions) -> nn.Module:
    """Load the model of a folder."""
    transformers = library("transformers")
    folder = settings.base_folder
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **local)
        for name, value in config.to_dict().items():
            if name.endswith(("dropout", "pdrop")) and isinstance(value, float):
                setattr(config, name, 0.0)  # its random zeros would depend on the split among ranks
        model: nn.Module = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32 if settings.tuning == "full" else options.compute,
            use_safetensors=True,
            attn_implementation="sdpa",
            **_placement(settings, options),
            **local,
        )
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")[:300]
        raise RankFailed(f"transformers cannot load the model in {folder}: {reason}", refused=True) from error
    compute_plainly(model)
    return model


def _placement(settings: PretrainedSettings, options: BuildOptions) -> dict[str, object]:
    """Return where the weights go, and how they are quantised as they are read."""
    placement: dict[str, object] = {"device_map": {"": options.device}}
    if settings.quantisation == "none":
        return placement
    library("bitsandbytes")  # its absence is reported as such, not as a mistake in the folder
    form = library("transformers").BitsAndBytesConfig
    if settings.quantisation == "int8":
        return {**placement, "quantization_config": form(load_in_8bit=True)}
    four_bits = form(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=settings.double_quantisation,
        bnb_4bit_compute_dtype=options.compute,
    )
    return {**placement, "quantization_config": four_bits}


MODULE = Pretrained
