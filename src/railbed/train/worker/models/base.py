"""The interface of a model family's torch module. `models/family.py` is the part without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from railbed.errors import CheckpointDamaged
from railbed.train.models.family import ModelSettings
from railbed.train.recipe import Recipe

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """A rank's options for its model."""

    device: torch.device
    compute: torch.dtype = torch.float32
    """Type of the values in a forward pass; parameters are fp32."""
    padded: bool = False
    """Whether to add rows to the embedding that no token uses, for the speed of GPUs."""
    gradient_checkpointing: bool = False


class Scorer(ABC):
    """Scores the next token of a text that grows."""

    context: int | None
    """The most tokens that a text can have; None if there is no limit."""

    @abstractmethod
    def restart(self) -> None:
        """Forget all tokens."""

    @abstractmethod
    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the score of every token of the vocabulary after some more tokens, in fp32.

        The first call has all tokens of the prompt, each of the others has one.
        """


class LanguageModel(nn.Module, ABC):
    """A model of one family. Called with tokens and targets, it returns the sum of the targets' losses."""

    settings: ModelSettings

    @abstractmethod
    def __init__(self, settings: ModelSettings, options: BuildOptions) -> None:
        """Create the parameters; `build` calls this on the meta device, so that no memory is filled twice."""
        super().__init__()
        self.settings = settings

    @classmethod
    def build(cls, settings: ModelSettings, options: BuildOptions) -> Self:
        """Return a model with uninitialised parameters: initialise, load or receive them."""
        with torch.device("meta"):
            model = cls(settings, options)
        model.to_empty(device=options.device)
        model.clear_padding()
        return model

    @abstractmethod
    def initialise(self, seed: int) -> None:
        """Fill the parameters with their initial values, the same for the same seed on any device."""

    @abstractmethod
    def loss(self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the sum of the losses of all targets, in fp32.

        `positions` are those of the tokens in their documents, if sequences consist of documents.
        """

    @abstractmethod
    def next_scores(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the score of every token of the vocabulary as the next one, [vocabulary], for tokens [1, length]."""

    def scorer(self) -> Scorer:
        """Return a scorer; models that cache what they computed for earlier tokens have their own."""
        return _PlainScorer(self)

    def forward(
        self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the loss. Training calls this, compiled and wrapped; evaluation calls `loss` itself."""
        return self.loss(tokens, targets, positions)

    def as_loaded(self) -> AbstractContextManager[object] | None:
        """Return a context in which the model computes as before it was trained; None if it cannot."""
        return None

    def compiled_parts(self) -> Iterable[nn.Module]:
        """Return the modules to compile one by one, so that gradients are sent while others are still computed."""
        return self.children()

    def clear_padding(self) -> None:
        """Set the padding to zero, in a model that has padding."""

    def without_padding(self, name: str, tensor: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 -- for models that pad
        """Return the view of a parameter, or of a moment of it, that is saved."""
        return tensor

    def saved_tensors(self) -> dict[str, torch.Tensor]:
        """Return the trained parameters as views, by name, as in a checkpoint."""
        parameters = ((name, p) for name, p in self.named_parameters() if p.requires_grad)
        return {name: self.without_padding(name, p.detach()) for name, p in parameters}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Copy the parameters of a checkpoint; raise CheckpointDamaged if they do not match the model."""
        copy_matching(self.saved_tensors(), tensors)

    def export_tensors(self) -> dict[str, torch.Tensor]:
        """Return the parameters under the names, and in the layout, of `configuration`'s architecture."""
        return {name: tensor.cpu().contiguous() for name, tensor in self.saved_tensors().items()}


class _PlainScorer(Scorer):
    """Computes everything again for every token."""

    def __init__(self, model: LanguageModel) -> None:
        self._model, self._tokens = model.eval(), list[int]()
        self.context = model.settings.context

    def restart(self) -> None:
        """Forget all tokens."""
        self._tokens.clear()

    @torch.inference_mode()
    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the scores after some more tokens."""
        self._tokens += tokens
        device = next(self._model.parameters()).device
        return self._model.next_scores(torch.tensor([self._tokens], device=device)).float()


def build_model(recipe: Recipe, options: BuildOptions) -> LanguageModel:
    """Return the recipe's model, uninitialised; its vocabulary must have been resolved."""
    module: type[LanguageModel] = recipe.family.module()
    return module.build(recipe.model, options)


def copy_matching(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
    """Copy tensors by name; raise CheckpointDamaged if names or shapes differ."""
    if {name: t.shape for name, t in theirs.items()} != {name: t.shape for name, t in ours.items()}:
        raise CheckpointDamaged("its tensors are not those of this recipe's model")
    for name, tensor in ours.items():
        tensor.copy_(theirs[name])
