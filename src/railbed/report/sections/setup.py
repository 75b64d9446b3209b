"""The setup: the run, its recipe, its cluster file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from railbed.model.events import RankChoices
from railbed.model.private import scrub
from railbed.model.text import number
from railbed.present.wording import moment, seconds
from railbed.report.blocks import Block, Cell, Code, Facts, Fold, Heading, ListBlock, TableBlock
from railbed.report.document import Section
from railbed.report.reading.history import recipe
from railbed.report.reading.run import RunData

MODEL = {
    "parameters": "parameters",
    "vocabulary": "vocabulary",
    "context": "context, tokens",
    "global_batch": "global batch, sequences",
    "micro_batch": "micro-batch, sequences",
    "flops_per_token": "operations per token",
}


def show(run: RunData) -> Sequence[Block]:
    """Show run, model, recipe and cluster file."""
    summary = run.summary
    command = scrub(shlex.join(["railbed", *summary.arguments]).encode("utf-8", "replace")).decode()
    items: list[tuple[str, Cell]] = [
        ("run", Code(summary.id)),
        ("command", Code(command)),
        ("cluster", summary.cluster),
        ("began", moment(summary.started)),
        ("status", summary.status),
        *([("ended", moment(summary.ended))] if summary.ended else []),
        ("took", seconds(run.seconds) if run.seconds is not None else "unknown"),
        ("exit code", str(summary.exit) if summary.exit is not None else "none"),
        ("railbed", summary.version),
    ]
    torch = dict.fromkeys(rank.torch_version for rank in run.of(RankChoices))
    if versions := ", ".join(filter(None, torch)):
        items.append(("torch", versions))
    blocks: list[Block] = [Facts(items)]
    if model := _model(run):
        blocks += [Heading("Model"), Facts(model)]
    if settings := [(Code(name), value) for name, value in _flat("", recipe(run))]:
        blocks += [
            Heading("Recipe"),
            Fold("every setting as it was used", [TableBlock(("setting", "value"), settings)]),
        ]
    if run.cluster_text.strip():
        blocks += [Heading("Cluster file"), Fold("cluster.yaml as it was used", [ListBlock(run.cluster_text)])]
    return blocks


def _model(run: RunData) -> list[tuple[str, Cell]]:
    """Return the model as rank 0 reported it."""
    first = next((rank for rank in run.of(RankChoices) if rank.rank == 0), None)
    values: dict[str, int | float | None] = {title: getattr(first, name, None) for name, title in MODEL.items()}
    return [
        (title, f"{value:,}" if isinstance(value, int) else number(value))
        for title, value in values.items()
        if value is not None
    ]


def _flat(above: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping) and value:
            yield from _flat(name, value)
        else:
            yield name, "none" if value is None else str(value)


SECTION = Section(name="setup", title="Setup", order=90, show=show)
