"""The interface of a model family without torch. `worker/models/base.py` has the torch side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from railbed.train.keys import CountOrAuto, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The `model` section of a recipe: the keys that all families share. Each family adds its own."""

    family: str = ""
    """Kind of model."""
    context: Positive = 128
    """Tokens in a sequence."""
    vocabulary: CountOrAuto = 4096
    """Tokens in the vocabulary; `auto` uses the tokenizer's."""

    @property
    def vocabulary_size(self) -> int:
        """Return the size of the vocabulary, which must have been resolved (`Recipe.for_vocabulary`)."""
        assert self.vocabulary != "auto"
        return self.vocabulary

    @property
    def is_random(self) -> bool:
        """Whether a forward pass in training draws random numbers, such as for dropout."""
        return False

    def is_padded(self, *, gpu: bool) -> bool:  # noqa: ARG002 -- for families that pad
        """Return whether the model has rows for tokens that do not exist."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """How a model is computed, as far as its memory depends on it."""

    value_bytes: int
    """Bytes of a value in the forward pass."""
    gpu: bool
    compiled: bool
    gradient_checkpointing: bool


class Family(ABC):
    """A model family, without torch."""

    name: ClassVar[str]
    """The name of its file, and the value of `model.family`."""
    settings: ClassVar[type[ModelSettings]]
    """Its section of the recipe."""
    size_keys: ClassVar[tuple[str, ...]]
    """Keys of that section to reduce if a model is too big."""

    @abstractmethod
    def parameter_count(self, model: Any) -> int:  # noqa: ANN401 -- the family's own settings, here and below
        """Return the number of parameters, without padding."""

    @abstractmethod
    def flops_per_token(self, model: Any) -> float:  # noqa: ANN401
        """Return the floating-point operations that training takes per token."""

    @abstractmethod
    def activation_bytes(self, model: Any, tokens: int, compute: Compute) -> int:  # noqa: ANN401
        """Return the memory that a micro-batch of this many tokens takes until its gradients exist."""

    @abstractmethod
    def configuration(self, model: Any, end_of_text: int) -> dict[str, object]:  # noqa: ANN401
        """Return the content of the exported config.json."""

    @abstractmethod
    def module(self) -> type[Any]:
        """Import torch and return the class of the module, a LanguageModel. Called by ranks only."""
