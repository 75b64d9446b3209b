"""Whether the nodes have the Python libraries that tuning a model needs, before anything is copied there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import aclosing

from railbed.errors import ToolMissing
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.parsing.shell import ONLY_INSTALLED, python_words
from railbed.train.models.pretrained import PretrainedSettings
from railbed.train.recipe import Recipe
from railbed.transport.base import Command

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
            f"or on {node}: {python} -P -m pip install {' '.join(names)}",
        )


def missing_libraries_command(interpreter: Sequence[str], wanted: Sequence[str]) -> str:
    """Return the command that prints which libraries the Python of the ranks lacks."""
    return f"{python_words(interpreter)} -c {shlex.quote(LOOK)} {shlex.join(wanted)}"
