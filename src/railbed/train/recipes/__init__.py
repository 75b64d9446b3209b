"""Recipes: those that come with railbed, as files in this folder, and how a recipe is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from railbed.errors import RecipeError, UserError
from railbed.model.text import exists, expand_home, is_file
from railbed.train.base.files import CONFIG
from railbed.train.base.folder import ModelFolder
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.train.recipes.validation import family_in, schema
from railbed.yamlfile.document import YamlDocument, parse
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import KeyPath, Mistake, did_you_mean, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validate

FOLDER = Path(__file__).parent
CONTEXT_KEY = ("model", "context")
RECIPE_FILE = FileKind(
    noun="a recipe",
    model=schema(),
    error=RecipeError,
    keys="model and batch",
    hint="`railbed train --list` shows those that come with railbed",
    habits={
        "lr": "learning_rate",
        "n_layer": "layers",
        "n_head": "heads",
        "n_embd": "width",
        "block_size": "context",
        "sequence_length": "context",
        "vocab_size": "vocabulary",
        "batch_size": "sequences",
        "max_steps": "steps",
        "max_iters": "steps",
        "grad_clip": "clip",
        "optimizer": "optimiser",
        "warmup": "warmup_steps",
        "lora_r": "rank",
        "lora_alpha": "alpha",
        "lora_dropout": "dropout",
        "target_modules": "targets",
        "max_seq_length": "context",
        "model_name_or_path": "path",
    },
)


def names() -> list[str]:
    """Return the names of the recipes that come with railbed."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def descriptions() -> dict[str, str]:
    """Return the description of each of them."""
    return {name: load(name).description for name in names()}


def load(wanted: str, settings: Sequence[str] = ()) -> Recipe:
    """Return a recipe by its name or file, with changes of the form `key=value`; raise RecipeError."""
    path = _path_of(wanted, Path())
    values, recipe = _load(path, ())
    for setting in settings:
        values, recipe = _set(values, setting)
    _require_context(recipe, path, settings)
    return recipe


def _require_context(recipe: Recipe, path: Path, settings: Sequence[str]) -> None:
    """Refuse sequences that are longer than those that the model to tune was made for."""
    base = recipe.model.base_folder if isinstance(recipe.model, PretrainedSettings) and recipe.model.path else None
    if base is None or not is_file(base / CONFIG):
        return  # what else is wrong with the folder is reported when it is read
    folder = ModelFolder.open(base)
    if obstacle := folder.obstacle_to(recipe.model.context):
        name, line = _origin(CONTEXT_KEY, path, settings)
        mistake = Mistake(obstacle, line, CONTEXT_KEY)
        hint = f"--set model.context={folder.context} is the most that the model allows"
        raise refusal(RECIPE_FILE, name, [mistake], hint=hint)


def _origin(key: KeyPath, path: Path, settings: Sequence[str]) -> tuple[str, int]:
    """Return which setting or file a value comes from, and the line; the recipe's file if it is a default."""
    for setting in reversed(settings):
        if setting.partition("=")[0].replace(" ", "") == ".".join(map(str, key)):
            return f"--set {setting}", 0
    file: Path | None = path
    while file is not None:
        document = parse(read_text(file, RECIPE_FILE).removeprefix(BYTE_ORDER_MARK), str(file), RECIPE_FILE)
        if key in document.positions:
            return str(file), document.line(key)
        extended = document.value.get("extends") if isinstance(document.value, dict) else None
        file = _path_of(extended, file.parent) if isinstance(extended, str) else None
    return str(path), 0


def _path_of(wanted: str, beside: Path) -> Path:
    if wanted in names():
        return FOLDER / f"{wanted}.yaml"
    path = beside / expand_home(wanted)
    if path.suffix in {".yaml", ".yml"} or exists(path):
        return path
    known = ", ".join(names())
    advice = did_you_mean(wanted, names()) or f"; there are {known}, and files ending in .yaml"
    raise RecipeError(f"there is no recipe {wanted}{advice}", hint=RECIPE_FILE.hint)


def _load(path: Path, below: tuple[Path, ...]) -> tuple[dict[str, Any], Recipe]:
    """Return the values of a file, merged with those it extends, and the recipe they form."""
    name = str(path)
    document = parse(read_text(path, RECIPE_FILE).removeprefix(BYTE_ORDER_MARK), name, RECIPE_FILE)
    assert isinstance(document.value, dict)
    values = dict(document.value)
    extended = values.pop("extends", None)
    if extended is not None:
        values = extend(_extend(extended, path, document, below), resolve_paths(values, path.parent))
    else:
        values = resolve_paths(values, path.parent)
    mistakes = list(document.mistakes)
    recipe = _validate(values, document, mistakes)
    if mistakes or recipe is None:
        raise refusal(RECIPE_FILE, name, mistakes)
    return values, recipe


def _validate(values: dict[str, Any], document: YamlDocument, mistakes: list[Mistake]) -> Recipe | None:
    form = schema(family_in(values))
    checked = validate(form, values, document, replace(RECIPE_FILE, model=form), mistakes)
    return Recipe.read(checked.model_dump(mode="json")) if checked else None


def from_record(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe of an earlier run; raise ValueError if the values are not a valid recipe."""
    return Recipe.read(schema(family_in(values)).model_validate(values).model_dump(mode="json"))


def _extend(wanted: object, path: Path, document: YamlDocument, below: tuple[Path, ...]) -> dict[str, Any]:
    def refusal_of(sentence: str) -> UserError:
        return refusal(RECIPE_FILE, str(path), [Mistake(sentence, document.line(("extends",)), ("extends",))])

    if not isinstance(wanted, str):
        raise refusal_of("expected the name of a recipe, or a file")
    try:
        parent = _path_of(wanted, path.parent)
    except RecipeError as error:
        raise refusal_of(error.message) from None
    if parent.resolve() in (path.resolve(), *below):
        raise refusal_of(f"{wanted} extends this recipe in turn")
    return _load(parent, (*below, path.resolve()))[0]


def _set(values: dict[str, Any], setting: str) -> tuple[dict[str, Any], Recipe]:
    """Return the values with one changed, and the recipe they form."""
    name = f"--set {setting}"
    keys, equals, text = setting.partition("=")
    path = tuple(key.strip() for key in keys.split("."))
    if not equals or not all(path):
        raise RecipeError(f"{name}: expected key=value, such as batch.sequences=64")
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
    document = parse("\n".join(lines) + f" {text}", name, RECIPE_FILE)
    changed = extend(values, resolve_paths(_mapping(document.value), Path()))
    mistakes = list(document.mistakes)
    recipe = _validate(changed, document, mistakes)
    if mistakes or recipe is None:
        raise refusal(RECIPE_FILE, name, [replace(mistake, line=0) for mistake in mistakes])
    return changed, recipe


def extend(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` updated with `above`; a model of another family inherits no key from the one below."""
    match above.get("model"):
        case {"family": family} if family != family_in(below):
            below = {**below, "model": {}}
    return merge_values(below, above)


def merge_values(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` updated with `above`: sections are merged, everything else is replaced."""
    values = dict(below)
    for key, value in above.items():
        under = values.get(key)
        values[key] = merge_values(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return values


def resolve_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the values with relative paths resolved against the folder of the recipe."""
    changed = dict(values)
    match values.get("data"):
        case {"files": list(files), **others}:
            changed["data"] = {**others, "files": [_absolute(file, folder) for file in files]}
    for section, key in (("data", "tokenizer"), ("model", "path")):
        match changed.get(section):
            case dict(part) if key in part:
                changed[section] = {**part, key: _absolute(part[key], folder)}
    return changed


def _absolute(file: object, folder: Path) -> object:
    return str((folder / expand_home(file)).absolute()) if isinstance(file, str) and file else file


def _mapping(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
