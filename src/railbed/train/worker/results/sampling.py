"""Chooses tokens, one after another, from a model's scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from railbed.errors import ModelError, UsageError
from railbed.train.worker.models.base import Scorer

Stop = Literal["end", "tokens", "context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are chosen."""

    tokens: int = 128
    """The most tokens to generate."""
    greedy: bool = False
    """Always the token with the highest score."""
    temperature: float = 0.8
    top_k: int = 40
    """Choose among so many tokens at most; 0 means all."""
    top_p: float = 1.0
    """Choose among the fewest tokens whose probabilities add up to this."""
    seed: int = 0


class Continuation:
    """The tokens after a prompt; `stop` says why there are no more."""

    def __init__(self, scorer: Scorer, prompt: Sequence[int], sampling: Sampling, ends: Collection[int]) -> None:
        self._scorer, self._prompt, self._sampling, self._ends = scorer, prompt, sampling, ends
        self.tokens: list[int] = []
        self.stop: Stop = "tokens"

    def __iter__(self) -> Iterator[int]:
        """Yield each token as soon as it is chosen; the token that ends the text is not among them."""
        room = self._room()
        generator = torch.Generator().manual_seed(self._sampling.seed)
        self._scorer.restart()
        unread = self._prompt
        for _ in range(min(room, self._sampling.tokens)):
            token = choose(self._scorer.scores(unread).cpu(), self._sampling, generator)
            if token in self._ends:
                self.stop = "end"
                return
            self.tokens.append(token)
            unread = [token]
            yield token
        self.stop = "context" if room < self._sampling.tokens else "tokens"

    def _room(self) -> int:
        """Return how many tokens fit after the prompt."""
        if self._scorer.context is None:
            return self._sampling.tokens
        room = self._scorer.context - len(self._prompt)
        if room < 0:
            limit = self._scorer.context
            raise UsageError(f"the prompt has {len(self._prompt)} tokens, and the context of the model has {limit}")
        # The last token need not be read again, so that one more fits than there are free places.
        return room + 1


def choose(scores: torch.Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """Return the next token."""
    if not torch.isfinite(scores.max()):
        raise ModelError("the scores of the model are not numbers", hint="its weights are damaged, or it diverged")
    if sampling.greedy:
        return int(scores.argmax())
    ordered, tokens = torch.sort(scores / sampling.temperature, descending=True, stable=True)
    if sampling.top_k:
        ordered = ordered[: sampling.top_k]
    probabilities = torch.softmax(ordered, 0)
    if sampling.top_p < 1.0:
        # A token stays if those before it do not add up to the share yet, and the first always does.
        before = torch.cumsum(probabilities, 0) - probabilities
        probabilities[1:].masked_fill_(before[1:] >= sampling.top_p, 0.0)
    return int(tokens[torch.multinomial(probabilities, 1, generator=generator)])
