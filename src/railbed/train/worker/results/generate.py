"""Generates text from a model on this node: chooses tokens from its scores, and sends their text piece by piece.

    python -m railbed.train.worker.results.generate

The request has `folder`, `prompts`, `sampling`, `chat` (true, false, or null for models with a template), `before`, and
`models` (where models from other machines are stored).
Sends `model` once it is loaded, `piece` several times a second, and `generated` for each prompt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from railbed.errors import ModelError, UsageError
from railbed.launch.messages import Messages
from railbed.model.text import expand_home
from railbed.train.base.folder import ModelFolder
from railbed.train.results.adapter import AdapterFolder, is_adapter, require_unchanged
from railbed.train.structure import structure
from railbed.train.worker.models.base import Scorer
from railbed.train.worker.results.own import OwnSpeaker, is_own
from railbed.train.worker.results.serve import serve
from railbed.train.worker.results.speaker import Speaker, When

UNFINISHED = "\ufffd"
Decode = Callable[[Sequence[int]], str]


class TextStream:
    """Turns tokens into text as they arrive.

    A token may be part of a character only, and its text may depend on the token before it (a space, say). So the
    text of a token is the difference between decoding with and without it, after the tokens of the piece before.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._before = 0
        self._written = 0

    def add(self, token: int) -> str:
        """Return the text that is complete with this token."""
        self._tokens.append(token)
        known, text = self._texts()
        if text.endswith(UNFINISHED) or len(text) <= len(known):
            return ""
        self._before, self._written = self._written, len(self._tokens)
        return text[len(known) :]

    def end(self) -> str:
        """Return what is left, complete or not."""
        known, text = self._texts()
        return text[len(known) :]

    def _texts(self) -> tuple[str, str]:
        """Return the text that was written since the piece before the last, and the same with what came since."""
        return self._decode(self._tokens[self._before : self._written]), self._decode(self._tokens[self._before :])


Stop = Literal["end", "tokens", "context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChoice:
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

    def __init__(self, scorer: Scorer, prompt: Sequence[int], sampling: TokenChoice, ends: Collection[int]) -> None:
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


def choose(scores: torch.Tensor, sampling: TokenChoice, generator: torch.Generator) -> int:
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


PIECE_SECONDS = 0.05
"""Text is sent this often at most."""


def open_speaker(path: Path, device: torch.device, models: Path | None = None) -> Speaker:
    """Load the model, or the model and the adapter, of a folder."""
    if not is_adapter(path):
        folder = ModelFolder.open(path)
        if is_own(folder):
            return OwnSpeaker(folder, device)
    # Imported here because nodes that train railbed's own models have torch and no more.
    from railbed.train.worker.results.pretrained import PretrainedSpeaker

    if is_adapter(path):
        adapter = AdapterFolder.open(path)
        base = adapter.base_folder(models)
        require_unchanged(adapter, base)
        return PretrainedSpeaker(base, device, adapter)
    return PretrainedSpeaker(folder, device)


def run(request: Mapping[str, Any], messages: Messages) -> Mapping[str, object]:
    """Answer all prompts."""
    path = expand_home(request["folder"])
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    messages.send("progress", message="loading the model")
    speaker = open_speaker(path, device, Path(request["models"]))
    chat = speaker.is_chat if request["chat"] is None else bool(request["chat"])
    if chat and not speaker.is_chat:
        raise UsageError("the tokenizer of this model has no chat template", hint="leave --chat out")
    times: tuple[When | None, ...] = _times(request, speaker)
    messages.send(
        "model",
        folder=str(path),
        architecture=speaker.architecture,
        parameters=speaker.parameters,
        device=speaker.device,
        precision=speaker.precision,
        base=speaker.base,
        chat=chat,
    )
    sampling = structure(TokenChoice, request["sampling"])
    for number, prompt in enumerate(request["prompts"]):
        tokens = speaker.encode(prompt, chat=chat)
        for when in times:
            with speaker.as_of(when or "after"):
                _answer(
                    speaker,
                    Continuation(speaker.scorer, tokens, sampling, speaker.ends),
                    messages,
                    {"prompt": number, "when": when, "prompt_tokens": len(tokens)},
                )
    return {}


def _times(request: Mapping[str, Any], speaker: Speaker) -> tuple[When | None, ...]:
    if request["before"] is False or (request["before"] is None and speaker.base is None):
        return (None,)
    if speaker.base is None:
        raise UsageError("--before needs a fine-tuned model: this one has no adapter")
    return ("before", "after")


def _answer(speaker: Speaker, answer: Continuation, messages: Messages, about: dict[str, object]) -> None:
    stream, parts, pending = TextStream(speaker.decode), list[str](), ""
    labels = {"prompt": about["prompt"], "when": about["when"]}
    began = sent = time.monotonic()
    first = None
    for token in answer:
        first = first or time.monotonic()
        pending += stream.add(token)
        if pending and time.monotonic() - sent > PIECE_SECONDS:
            messages.send("piece", **labels, text=pending)
            parts.append(pending)
            pending, sent = "", time.monotonic()
    pending += stream.end()
    if pending:
        messages.send("piece", **labels, text=pending)
        parts.append(pending)
    seconds = time.monotonic() - (first or began)
    messages.send("generated", **about, text="".join(parts), tokens=answer.tokens, stop=answer.stop, seconds=seconds)


if __name__ == "__main__":
    serve(run)
