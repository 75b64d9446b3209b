"""A model family in one class: selected by a recipe, estimated, built, trained, saved, loaded, exported and sampled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.support.smallmodel import write_tokens
from torch import nn
from torch.nn import functional as F  # noqa: N812

from railbed.collective.group import SingleRank
from railbed.errors import CheckpointDamaged, RecipeError
from railbed.launch.messages import Messages
from railbed.train import recipes
from railbed.train.capacity.estimate import memory
from railbed.train.keys import Positive
from railbed.train.models import find
from railbed.train.models.family import Compute, Family, ModelSettings
from railbed.train.recipe import Recipe
from railbed.train.recipes.validation import schema
from railbed.train.spec import TrainSpec
from railbed.train.state.checkpoints import survey
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.convert import model_of
from railbed.train.worker.io.corpus import Tokens
from railbed.train.worker.io.export import export
from railbed.train.worker.io.saver import Saver
from railbed.train.worker.io.tensorfile import read_tensors
from railbed.train.worker.memory import MicroBatches
from railbed.train.worker.models.base import BuildOptions, LanguageModel, build_model
from railbed.train.worker.models.sample import generate
from railbed.train.worker.parallel.choose import strategy_of
from railbed.train.worker.parallel.strategy import Strategy
from railbed.train.worker.step import Stepper

VOCABULARY = 64
RECIPE = (
    "model: {family: bigram, width: 8, context: 16, vocabulary: auto}\nsteps: 30\nbatch: {sequences: 8, micro: 4}\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BigramSettings(ModelSettings):
    """A model that sees one token."""

    family: str = "bigram"
    """Kind of model."""
    width: Positive = 16
    """Width of the embedding."""


class BigramFamily(Family):
    """Scores of the next token from the last one."""

    name: ClassVar[str] = "bigram"
    settings: ClassVar[type[ModelSettings]] = BigramSettings
    size_keys: ClassVar[tuple[str, ...]] = ("width",)

    def parameter_count(self, model: BigramSettings) -> int:
        return 2 * model.vocabulary_size * model.width

    def flops_per_token(self, model: BigramSettings) -> float:
        return 6.0 * self.parameter_count(model)

    def activation_bytes(self, model: BigramSettings, tokens: int, compute: Compute) -> int:
        return tokens * (model.width + model.vocabulary_size) * compute.value_bytes

    def configuration(self, model: BigramSettings, end_of_text: int) -> dict[str, object]:
        return {"model_type": "bigram", "width": model.width, "eos_token_id": end_of_text}

    def module(self) -> type[LanguageModel]:
        return Bigram


class Bigram(LanguageModel):
    settings: BigramSettings

    def __init__(self, settings: BigramSettings, options: BuildOptions) -> None:
        super().__init__(settings, options)
        self.embedding = nn.Embedding(settings.vocabulary_size, settings.width)
        self.head = nn.Linear(settings.width, settings.vocabulary_size, bias=False)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            parameter.copy_(torch.empty(parameter.shape).normal_(0.0, 0.1, generator=generator))

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        assert positions is None
        scores = self.head(self.embedding(tokens))
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")

    def next_scores(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.embedding(tokens))[0, -1]
        return scores


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recipe]:
    every = {**find.families(), "bigram": BigramFamily()}
    for module in ("models.find", "recipes.validation"):
        monkeypatch.setattr(f"railbed.train.{module}.families", lambda: every)
    schema.cache_clear()
    (tmp_path / "own.yaml").write_text(RECIPE)
    yield recipes.load(str(tmp_path / "own.yaml"), ["model.width=12"])
    schema.cache_clear()


@dataclass
class Trainer:
    """What a rank makes of a recipe."""

    stepper: Stepper
    strategy: Strategy
    optimiser: torch.optim.Optimizer

    @classmethod
    def of(cls, recipe: Recipe, tokens: Path) -> Trainer:
        device = torch.device("cpu")
        model = build_model(recipe, BuildOptions(device=device))
        model.initialise(recipe.seed)
        optimiser = adamw.make(model, recipe.optimiser)
        strategy = strategy_of(recipe)(model, SingleRank(), recipe, compiled=False)
        stepper = Stepper(
            settings=recipe,
            strategy=strategy,
            tokens=Tokens.open(tokens),
            optimiser=optimiser,
            device=device,
            shares=[1.0],
            micro=MicroBatches(4),
        )
        return cls(stepper, strategy, optimiser)

    def losses(self, steps: range) -> list[float]:
        return [self.stepper.take(step, wants_checkpoint=False).sums()[0] for step in steps]


def messages_of(folder: Path) -> Messages:
    return Messages(os.open(folder / "messages", os.O_WRONLY | os.O_CREAT), 0)


def test_the_recipe_selects_the_family(recipe: Recipe) -> None:
    assert recipe.model == BigramSettings(width=12, context=16, vocabulary="auto")
    sized = recipe.for_vocabulary(VOCABULARY)
    need = memory(sized, micro=4)
    assert need.parameters == 2 * VOCABULARY * 12
    assert need.state == 16 * need.parameters
    assert need.activations == 4 * 16 * (12 + VOCABULARY) * 4


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("model.layers=2", "model.layers: unknown key"),
        (
            "model.family=bigrma",
            "model.family: expected bigram or gpt or pretrained, found 'bigrma'; did you mean bigram?",
        ),
    ],
)
@pytest.mark.usefixtures("recipe")
def test_a_mistake_is_about_the_family_in_use(tmp_path: Path, setting: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipes.load(str(tmp_path / "own.yaml"), [setting])
    assert sentence in caught.value.message


def test_it_is_trained_saved_and_continued_exactly(recipe: Recipe, tmp_path: Path) -> None:
    tokens = write_tokens(tmp_path / "tokens", vocabulary=VOCABULARY)
    recipe = recipe.for_vocabulary(VOCABULARY)
    first = Trainer.of(recipe, tokens)
    job = TrainSpec(recipe=recipe.to_plain(), run="r", checkpoints=str(tmp_path / "checkpoints"))
    state = first.strategy.state(first.optimiser, job.called)
    before = first.losses(range(15))
    assert before[-1] < before[0]
    assert first.strategy.saves(job)
    saver = Saver(job, state, messages_of(tmp_path), VOCABULARY)
    saver.save(15)
    saver.wait()
    checkpoint = survey(tmp_path / "checkpoints").good[0]
    expected = first.losses(range(15, 20))

    second = Trainer.of(recipe, tokens)
    restored = second.strategy.state(second.optimiser, job.called)
    resumed: dict[str, Any] = {**json.loads(job.to_json()), "resume": {"step": 15, "rank": 0}}
    second.strategy.restore(restored, TrainSpec.from_json(json.dumps(resumed)), checkpoint.path)
    assert second.losses(range(15, 20)) == expected

    model = model_of(checkpoint)
    export(model, tmp_path / "out", tokens=tokens, end_of_text=0, step=15)
    assert json.loads((tmp_path / "out/config.json").read_text())["model_type"] == "bigram"
    exported, _ = read_tensors(tmp_path / "out/model.safetensors")
    assert exported.keys() == {"embedding.weight", "head.weight"}
    assert len(generate(model, [1, 2], 10, seed=1)) == 12


def test_tensors_of_another_model_are_refused(recipe: Recipe) -> None:
    model = build_model(recipe.for_vocabulary(VOCABULARY), BuildOptions(device=torch.device("cpu")))
    with pytest.raises(CheckpointDamaged, match="not those of this recipe's model"):
        model.load({"embedding.weight": torch.zeros(VOCABULARY, 12)})


def test_families_are_described_without_torch() -> None:
    script = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from railbed.train import recipes\n"
        "from railbed.train.capacity.estimate import memory\n"
        "from railbed.train.models.find import families\n"
        "assert families() and memory(recipes.load('gpt2'), micro=1).total > 0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
