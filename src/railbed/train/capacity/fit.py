"""What is verified before a training starts: disk space, libraries, the size of the vocabulary.

Disk space is for checkpoints, libraries are for tuning a model: both before anything is copied to the nodes. The
vocabulary has the size of the tokenizer's, if the recipe leaves it to that.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from railbed.errors import ToolMissing
from railbed.fleet import Fleet
from railbed.model import events, text
from railbed.model.cluster import Cluster
from railbed.model.record import Event
from railbed.parsing.text import ONLY_INSTALLED, python_words
from railbed.train.capacity.estimate import parallelism_of
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.train.state.checkpoints import KEPT
from railbed.transport.base import Command


def with_vocabulary(recipe: Recipe, tokens: Path) -> Recipe:
    """Return the recipe with the size of its vocabulary, from a folder of prepared tokens."""
    if recipe.model.vocabulary != "auto":
        return recipe
    return recipe.for_vocabulary(int(json.loads((tokens / "tokens.json").read_text())["vocabulary"]))


def disk_notices(
    recipe: Mapping[str, Any], tokens: Path | None, free: Mapping[str, int], world: int
) -> Iterator[Event]:
    """Yield a notice for each node that has too little disk space; `free` has the free bytes of each."""
    settings = Recipe.read(recipe)
    if settings.traffic or tokens is None:
        return
    settings = with_vocabulary(settings, tokens)
    parameters = settings.family.trained_count(settings.model)
    saved = parallelism_of(settings).saved_bytes(parameters, world)
    needed = saved * (KEPT + 1)  # the new checkpoint is complete before the oldest is removed
    for node, size in free.items():
        if size < needed:
            message = (
                f"its disk has {text.size(size)} free, and checkpoints take up to {text.size(needed)}: "
                "those that do not fit will not be saved"
            )
            yield events.Notice(subject=node, message=message)


LOOK_SECONDS = 30.0
LOOK = f"""\
{ONLY_INSTALLED}
import importlib.util
print(*[name for name in sys.argv[1:] if not importlib.util.find_spec(name)])"""


def libraries_of(recipe: Recipe) -> tuple[str, ...]:
    """Return the libraries that ranks of a recipe import, besides torch."""
    if not isinstance(recipe.model, PretrainedSettings):
        return ()
    adapters = ("peft",) if recipe.model.tuning == "lora" else ()
    return ("transformers", *adapters, *(("bitsandbytes",) if recipe.model.quantisation != "none" else ()))


async def require_libraries(cluster: Cluster, fleet: Fleet, recipe: Recipe) -> None:
    """Raise ToolMissing if a node lacks a library; nodes that do not answer are left to the launch."""
    wanted = libraries_of(recipe)
    if not wanted:
        return
    commands = {
        name: (
            Command(
                key="libraries",
                script=missing_libraries_command(cluster.interpreter_of(name), wanted),
                timeout=LOOK_SECONDS,
            ),
        )
        for name in cluster.nodes
    }
    lacking: dict[str, list[str]] = {}
    async with aclosing(fleet.run(commands)) as answers:
        async for answer in answers:
            if answer.outputs and answer.outputs[0].exit == 0:
                missing = answer.outputs[0].stdout.decode("utf-8", "replace").split()
                lacking |= {answer.device: missing} if missing else {}
    if lacking:
        node = next(name for name in cluster.nodes if name in lacking)
        names = [name for name in wanted if name in lacking[node]]
        others = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        python = cluster.python_of(node)
        raise ToolMissing(
            f"{node}{others} cannot tune this model: {', '.join(names)} not installed for {python}",
            hint=f"`railbed configure --rule tuning_libraries --apply` installs them in a virtual environment, "
            f"or on {node}: {python} -I -m pip install {' '.join(names)}",
        )


def missing_libraries_command(interpreter: Sequence[str], wanted: Sequence[str]) -> str:
    """Return the command that prints which libraries the Python of the ranks lacks."""
    return f"{python_words(interpreter)} -c {shlex.quote(LOOK)} {shlex.join(wanted)}"
