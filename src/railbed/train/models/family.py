"""The interface of a model family without torch. `worker/models/base.py` has the torch side."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
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

    @property
    def base_folder(self) -> Path | None:
        """Return the folder of the model to start from; None for a model that starts from random values."""
        return None

    def with_base(self, folder: str) -> ModelSettings:  # noqa: ARG002 -- for families that start from a folder
        """Return the settings with that folder elsewhere, as on a node."""
        return self

    @property
    def is_on_nodes(self) -> bool:
        """Whether the nodes have that folder already, at the same path."""
        return False

    @property
    def has_rows(self) -> bool:
        """Whether sequences are rows of documents (`data/rows.py`) instead of windows of one long text."""
        return False

    @property
    def compiles(self) -> bool:
        """Whether `compile: auto` compiles this model on a GPU."""
        return True

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

    def trained_count(self, model: Any) -> int:  # noqa: ANN401
        """Return the number of parameters that are trained, exchanged and saved."""
        return self.parameter_count(model)

    def frozen_bytes(self, model: Any, compute: Compute) -> int:  # noqa: ANN401, ARG002 -- for families with both
        """Return the memory of weights that are not trained."""
        return 0

    @abstractmethod
    def flops_per_token(self, model: Any) -> float:  # noqa: ANN401
        """Return the floating-point operations that training takes per token."""

    @abstractmethod
    def activation_bytes(self, model: Any, tokens: int, compute: Compute) -> int:  # noqa: ANN401
        """Return the memory that a micro-batch of this many tokens takes until its gradients exist."""

    def savings(self, model: Any) -> tuple[str, ...]:  # noqa: ANN401
        """Return changes to the model's keys that need less memory in a step, as advice."""
        return (f"shorter sequences (--set model.context={max(1, model.context // 2)})",)

    @abstractmethod
    def configuration(self, model: Any, end_of_text: int) -> dict[str, object]:  # noqa: ANN401
        """Return the content of the exported config.json."""

    def module(self) -> type[Any]:
        """Import torch and return the class of the module, a LanguageModel. Called by ranks only.

        By default it is `MODULE` in the file of the same name in `worker/models/`, found as the family itself was: that
        file needs the family's settings, so the family must not need it in turn.
        """
        module: type[Any] = importlib.import_module(f"railbed.train.worker.models.{self.name}").MODULE
        return module
