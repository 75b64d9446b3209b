"""Recipes: built-in ones, the user's own, and a message for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeGuard, get_args

import pytest
from pydantic import BaseModel

from railbed.errors import RecipeError
from railbed.train import recipes
from railbed.train.capacity.estimate import memory
from railbed.train.models.gpt import GptSettings
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.train.recipes.validation import schema
from railbed.train.spec import ResumeSource, TrainSpec

SHARES = "expected speed, equal, or weights of nodes above 0 such as {node1: 3}"
TEXTS = [
    ("batch: {sequence: 4}", "FILE:1: batch.sequence: unknown key; did you mean sequences?"),
    ("steps: 3\noptimiser:\n  lr: 1e-3", "FILE:3: optimiser.lr: unknown key; did you mean learning_rate?"),
    ("optimizer: {}", "FILE:1: optimizer: unknown key; did you mean optimiser?"),
    ("steps: many", "FILE:1: steps: expected a whole number, 1 or more, found 'many'"),
    ("model: {width: 100, heads: 6}", "FILE:1: model: width 100 is not a multiple of heads 6"),
    ("threads: 0", "FILE:1: threads: expected auto or a whole number, 1 or more, found 0"),
    ("compile: maybe", "FILE:1: compile: expected auto, true or false, found 'maybe'"),
    ("shares: fast", f"FILE:1: shares: {SHARES}, found 'fast'"),
    *((f"shares: {value}", f"FILE:1: shares: {SHARES}, found a map") for value in ("{}", "{a: 0}", "{a: b}")),
    ("extends: tniy", "FILE:1: extends: there is no recipe tniy; did you mean tiny?"),
    ("extends: own.yaml", "FILE:1: extends: own.yaml extends this recipe in turn"),
    ("- steps", "FILE:1: expected keys such as model and batch at the top, found a list"),
    ("", "FILE: the file is empty"),
    ("steps: *a", "FILE:1: a value that begins with * is taken for an alias; put it in quotes"),
]
SETTINGS = [
    ("batch.sequence=3", "--set batch.sequence=3: batch.sequence: unknown key; did you mean sequences?"),
    ("batch.sequences=x", "--set batch.sequences=x: batch.sequences: expected a whole number, 1 or more, found 'x'"),
    ("batch", "--set batch: expected key=value, such as batch.sequences=64"),
    ("precision=fp8", "--set precision=fp8: precision: expected auto or fp32 or bf16 or fp16, found 'fp8'"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[sentence for _, sentence in TEXTS])
def test_a_mistake_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(RecipeError) as caught:
        recipes.load(str(file))
    assert caught.value.message == message.replace("FILE", str(file))


@pytest.mark.parametrize(("setting", "message"), SETTINGS)
def test_a_mistaken_setting_is_reported(setting: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipes.load("tiny", [setting])
    assert caught.value.message.startswith(message)


def test_a_recipe_that_is_not_there() -> None:
    with pytest.raises(RecipeError, match="there is no recipe gpt3; did you mean gpt2"):
        recipes.load("gpt3")


def test_recipes_have_names_and_descriptions() -> None:
    assert recipes.names() == ["gpt2", "lora", "qlora", "text", "tiny", "traffic"]
    assert all(len(line) < 110 for line in recipes.descriptions().values())


def test_extending_and_setting(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("extends: tiny\nbatch: {sequences: 48}\ndata: {files: [texts, /abs]}\n")
    (tmp_path / "own.yaml").write_text("extends: base.yaml\ndescription: mine\n")
    recipe = recipes.load(str(tmp_path / "own.yaml"), ["optimiser.learning_rate=5e-4", "compile=false", "steps=7"])
    assert isinstance(recipe.model, GptSettings)
    assert (recipe.description, recipe.batch.sequences, recipe.model.width, recipe.steps) == ("mine", 48, 192, 7)
    assert (recipe.optimiser.learning_rate, recipe.compile) == (5e-4, False)
    assert recipe.data.files == (str(tmp_path / "texts"), "/abs")
    assert recipe.data.prompt == "def "


def test_a_context_above_that_of_the_model_is_reported_with_its_place(tmp_path: Path) -> None:
    """Whatever set it last is named, and what a later setting corrects is no mistake."""
    for name, key, most in (("base", "max_position_embeddings", 1024), ("gpt", "n_positions", 512)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": name, key: most}))
    below, above = tmp_path / "below.yaml", tmp_path / "above.yaml"
    below.write_text("model:\n  family: pretrained\n  path: base\n  context: 4096\n")
    above.write_text("extends: below.yaml\nsteps: 10\n")
    limit = f"4096 tokens, but the model in {tmp_path}/base is made for at most 1024 (max_position_embeddings in its"
    for file in (below, above):
        with pytest.raises(RecipeError) as caught:
            recipes.load(str(file))
        assert caught.value.message == f"{below}:4: model.context: {limit} config.json)"
        assert "--set model.context=1024" in caught.value.hint
        assert recipes.load(str(file), ["model.context=1024"]).model.context == 1024
    with pytest.raises(RecipeError, match=r"^--set model.context=2000: model.context: 2000 tokens, .* at most 1024"):
        recipes.load(str(below), ["model.context=2000"])
    gpt = [f"model.path={tmp_path}/gpt", "model.context=512"]
    assert recipes.load(str(below), gpt).model.context == 512
    below.write_text("model: {family: pretrained, path: gpt}\n")
    with pytest.raises(RecipeError, match=rf"^{above}: model.context: 1024 tokens, .* at most 512 \(n_positions in"):
        recipes.load(str(above))


def test_a_model_of_another_family_inherits_no_key(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: tiny\nmodel: {family: pretrained, path: base}\n")
    recipe = recipes.load(str(own))
    assert isinstance(recipe.model, PretrainedSettings)
    assert (recipe.model.path, recipe.data.prompt) == (str(tmp_path / "base"), "def ")
    assert recipe.model == PretrainedSettings(path=str(tmp_path / "base"))
    own.write_text("extends: tiny\nmodel: {family: gpt, width: 96}\n")
    model = recipes.load(str(own)).model
    assert isinstance(model, GptSettings)
    assert (model.width, model.context) == (96, recipes.load("tiny").model.context)
    own.write_text("extends: tiny\nmodel: {family: pretrianed, width: 96}\n")
    with pytest.raises(RecipeError, match="pretrianed") as refused:
        recipes.load(str(own))
    assert "layers" not in refused.value.message


def test_the_file_and_the_ranks_have_the_same_keys_and_defaults() -> None:
    assert schema()().model_dump(mode="json") == Recipe().to_plain()
    assert recipes.from_record(Recipe().to_plain()) == Recipe()


def test_every_key_has_a_description() -> None:
    """The reference page derives from them; a section needs none, since its keys have theirs."""
    waiting: list[type[BaseModel]] = [schema()]
    while waiting:
        section = waiting.pop()
        described = section.model_json_schema()["properties"]
        for name, key in section.model_fields.items():
            nested = [part for part in (key.annotation, *get_args(key.annotation)) if _is_section(part)]
            waiting += nested
            assert described[name].get("description") or nested, name


def _is_section(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def test_a_recipe_names_its_model_family() -> None:
    assert recipes.load("tiny").model.family == "gpt"
    assert recipes.load("tiny", ["model.family=gpt"]) == recipes.load("tiny")
    with pytest.raises(RecipeError, match=r"model.family: expected gpt or pretrained, found 'gtp'"):
        recipes.load("tiny", ["model.family=gtp"])


@pytest.mark.parametrize("name", recipes.names())
def test_a_job_comes_back_from_json(name: str) -> None:
    recipe = recipes.load(name)
    job = TrainSpec(recipe=recipe.to_plain(), run="r", resume=ResumeSource(step=4, rank=1), shares=(3, 1))
    again = TrainSpec.from_json(job.to_json())
    assert again == job
    assert again.settings.steps == recipe.steps


@pytest.mark.parametrize("text", ["[]", "{}", '{"recipe": {}, "run": "r", "rnak": 1}', "{"])
def test_what_is_not_a_job_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        TrainSpec.from_json(text)


def test_the_estimate_counts_gpt2() -> None:
    small = memory(recipes.load("gpt2"), micro=1)
    assert small.parameters == 124_439_808
    assert 4.5e9 < small.total < 5.5e9
    assert 3.0e9 < small.total - small.copy < 4.0e9
