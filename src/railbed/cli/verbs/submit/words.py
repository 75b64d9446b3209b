"""The verb and its arguments that a job runs: checked now, not after hours in a queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from railbed.cli.background.runs import was_given
from railbed.cli.site import SLURM_NAME
from railbed.errors import UsageError
from railbed.model.text.paths import expand_home, is_file

NOT_IN_A_JOB = {
    "train": ("detach", "attach", "stop", "listing", "environment", "watched", "from_start"),
    "bench": ("listing", "replay", "second_visit"),
    "check": ("explain", "replay"),
}
"""The verbs that can be submitted, and their options that make no sense in a job, by the names of their parameters."""


def checked_words(verb: str, words: Sequence[str]) -> list[str]:
    """Return the complete command of a job; raise UsageError for anything that would fail there."""
    if verb not in NOT_IN_A_JOB:
        raise UsageError(f"{verb} cannot be submitted", hint=f"only {', '.join(NOT_IN_A_JOB)} can")
    context = _parse(verb, words)
    for parameter in context.command.params:
        if parameter.name in NOT_IN_A_JOB[verb] and was_given(context, parameter.name):
            raise UsageError(
                f"{parameter.opts[0]} cannot be used in a job", hint=f"run `railbed {verb}` without submit"
            )
    READABLE[verb](context.params)
    return [verb, *words, *_cluster(context.params.get("cluster"))]


def split_resume(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the run that `--resume` names, and the other words: the job finds the run by itself."""
    rest: list[str] = []
    resumed = None
    following = iter(words)
    for word in following:
        if word == "--resume":
            resumed = next(following, "")
        elif word.startswith("--resume="):
            resumed = word.removeprefix("--resume=")
        else:
            rest.append(word)
    return resumed, rest


def refuse_recipe(words: Sequence[str]) -> None:
    """Refuse a recipe beside `--resume`: it would be ignored."""
    context = _parse("train", words)
    for parameter in context.command.params:
        if parameter.name in ("recipe", "settings") and was_given(context, parameter.name):
            name = parameter.opts[0] if parameter.opts[0].startswith("-") else "RECIPE"
            raise UsageError(f"--resume and {name} cannot be combined", hint="a run continues with its own recipe")


def _parse(verb: str, words: Sequence[str]) -> typer.Context:
    # Imported here because it loads this module.
    from railbed.cli.main import make_app

    group = get_command(make_app([verb]))
    assert isinstance(group, TyperGroup)
    command = group.commands[verb]
    context = typer.Context(command, info_name=verb, parent=typer.Context(group, info_name="railbed"))
    with context.scope(cleanup=False):
        command.parse_args(context, list(words))
    return context


def _cluster(file: Path | None) -> list[str]:
    """Return the option for the job's nodes, unless it is there already."""
    if file is None:
        site = os.environ.get("RAILBED_SITE")  # the job does not get it
        return ["-c", f"{SLURM_NAME}:{site}" if site else SLURM_NAME]
    name, _, site = str(file).partition(":")
    if name != SLURM_NAME:
        raise UsageError(f"a job has no cluster {file}: it trains on the nodes that it gets", hint="-c slurm:SITE.yaml")
    if site and not is_file(expand_home(site)):
        raise UsageError(f"there is no site file {site}")
    return []


def _read_recipe(parameters: Mapping[str, Any]) -> None:
    from railbed.train import recipes

    recipes.load(parameters["recipe"], parameters["settings"] or [])


def _read_suite(parameters: Mapping[str, Any]) -> None:
    from railbed.bench import experiments, suites

    suites.load(parameters["suite"])
    if parameters["experiment"] is not None:
        experiments.load(parameters["experiment"])


def _read_rules(parameters: Mapping[str, Any]) -> None:
    from railbed.catalog import choose
    from railbed.check.book import CHECK_BOOK

    for name in parameters["rules"] or ():
        choose(CHECK_BOOK.rules, name, kind="rule", listing="docs/reference/checks.md lists them")


READABLE: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "train": _read_recipe,
    "bench": _read_suite,
    "check": _read_rules,
}
"""Reads what a verb's arguments name; raises as the verb itself would."""
