"""`railbed.generate`: what a trained model says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from railbed.api.clusters import ClusterLike, cluster_words
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.stream import RecordStream
from railbed.api.trained import ModelSource, model_words, trained_model
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store import Store
from railbed.train.generate import GenerateRequest
from railbed.train.generate import generate as generate_texts

INPUT_BYTES = 4 << 20
"""The most that all prompts may have."""


def generate(
    source: ModelSource,
    prompts: str | Sequence[str],
    cluster: ClusterLike = None,
    *,
    tokens: int = 128,
    greedy: bool = False,
    temperature: float = 0.8,
    top_k: int = 40,
    top_p: float = 1.0,
    seed: int = 0,
    before: bool | None = None,
    chat: bool | None = None,
    node: str | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Generate text from a trained model: that of a run, on its node, or that of a folder, on this machine.

    Yields events: a `TextPiece` for each piece as it comes, and a `TextGenerated` for each answer.

    `source` is a run, its name, the path of its folder, or `newest`; or the folder of a model, on `node` of a cluster
    if one is given. At most `tokens` are generated for each prompt: the likeliest with `greedy`, else drawn with a
    `temperature` among the `top_k` likeliest (0 for all) that add up to the share `top_p`; the same `seed` gives the
    same text. Fine-tuned models also answer as they were `before`, and models with a template for a `chat` use it,
    unless these are set. The cluster is that of the run, unless another is given.
    """
    reach, store = reach or Reach(), store or Store()
    if reach.replay:
        raise UsageError("a recording has no weights", hint="leave out replay")
    texts = _texts([prompts] if isinstance(prompts, str) else prompts)
    sampling = {**_numbers(tokens, temperature, top_k, top_p, seed), "greedy": greedy}
    model = trained_model(source, cluster, node, store)
    request = GenerateRequest(
        run=model.run,
        folder=model.folder,
        node=model.node,
        prompts=texts,
        sampling=sampling,
        chat=chat,
        before=before,
    )
    answers = _Answers(texts)

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return answers.noting(model.cluster, request, fleet)

    invocation = Invocation(verb="generate", cluster=model.cluster, work=work, closing=answers.list_unfinished)
    words = ["generate", model_words(source), *(word for text in texts for word in ("--prompt", text))]
    return RecordStream(invocation, reach, store, [*words, *cluster_words(cluster)])


@dataclass
class _Answers:
    """The text so far, so that an interruption loses none of it."""

    prompts: Sequence[str]
    _pieces: dict[tuple[int, str | None], list[str]] = field(default_factory=dict)

    async def noting(self, cluster: Cluster, request: GenerateRequest, fleet: Fleet) -> AsyncGenerator[Record, None]:
        """Generate, and remember the text."""
        async with aclosing(generate_texts(cluster, fleet, request)) as records:
            async for record in records:
                match record:
                    case events.TextPiece(prompt=prompt, when=when, text=text):
                        self._pieces.setdefault((prompt, when), []).append(text)
                    case events.TextGenerated(prompt=prompt, when=when):
                        self._pieces.pop((prompt, when), None)
                yield record

    def list_unfinished(self) -> Iterator[Record]:
        """Yield the answers that were interrupted."""
        for (prompt, when), pieces in self._pieces.items():
            if prompt < len(self.prompts):
                text = "".join(pieces)
                yield events.TextGenerated(
                    prompt=prompt, when=when, input=self.prompts[prompt], text=text, stop="interrupted"
                )


def _texts(prompts: Sequence[str]) -> list[str]:
    """Return prompts without what UTF-8 cannot express; raise UsageError if there are none, or too much."""
    if not prompts:
        raise UsageError("there is no prompt", hint="give at least one")
    texts = [text.encode("utf-8", "replace").decode() for text in prompts]
    if sum(len(text.encode()) for text in texts) > INPUT_BYTES:
        raise UsageError(f"the prompts are longer than {INPUT_BYTES >> 20} MiB")
    return texts


def _numbers(tokens: int, temperature: float, top_k: int, top_p: float, seed: int) -> dict[str, float]:
    """Return the numbers of the sampling; refuse those that the options of the command refuse."""
    limits = {
        "tokens": (tokens, 1, None),
        "temperature": (temperature, 0.01, None),
        "top_k": (top_k, 0, None),
        "top_p": (top_p, 0, 1),
        "seed": (seed, 0, None),
    }
    for name, (value, least, most) in limits.items():
        if value < least or (most is not None and value > most):
            raise UsageError(f"{name} {value:g} is not {f'{least} to {most}' if most else f'at least {least}'}")
    return {name: value for name, (value, _, _) in limits.items()}
