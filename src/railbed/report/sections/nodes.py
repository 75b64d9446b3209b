"""The participating nodes and their hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from railbed.model import events
from railbed.present.wording import plural
from railbed.report.blocks import Block, Cell, MarkCell, TableBlock
from railbed.report.document import Section
from railbed.report.reading.history import generations
from railbed.report.reading.run import RunData

COLUMNS = ("node", "generations", "ranks", "device", "computes in", "transport", "torch", "what happened")
INCIDENTS = (events.NodeLost, events.NodeCut, events.NodeOut, events.GenerationFailed)


def show(run: RunData) -> Sequence[Block] | None:
    """Show one row for each node that ranks were started on, or that was lost before."""
    all_generations = generations(run)
    chosen: dict[str, list[events.RankChoices]] = {}
    for choices in run.of(events.RankChoices):
        chosen.setdefault(choices.subject.partition("/")[0], []).append(choices)
    lost = [event.subject for event in run.of(events.NodeLost, events.NodeCut)]
    names = dict.fromkeys([*(node for generation in all_generations for node in generation.nodes), *chosen, *lost])
    if not names:
        return None
    rows = []
    for name in names:
        parts = ", ".join(str(generation.number) for generation in all_generations if name in generation.nodes)
        rows.append(
            (name, parts or MarkCell("none", "bad"), *_describe_choices(chosen.get(name, [])), _incidents(run, name))
        )
    return [TableBlock(COLUMNS, rows)]


def _describe_choices(ranks: Sequence[events.RankChoices]) -> tuple[Cell, ...]:
    def distinct(texts: Iterable[str | None]) -> str:
        return ", ".join(text for text in dict.fromkeys(texts) if text)

    precision = distinct(rank.precision for rank in ranks)
    compiled = ", compiled" if any(rank.compile for rank in ranks) else ""
    return (
        str(len({rank.rank for rank in ranks})) if ranks else "",
        distinct(" ".join(filter(None, (rank.device, rank.device_name))) for rank in ranks),
        precision + compiled,
        distinct(rank.transport for rank in ranks),
        distinct(rank.torch_version for rank in ranks),
    )


def _incidents(run: RunData, name: str) -> Cell:
    incidents = [event for event in run.events if isinstance(event, INCIDENTS) and event.subject == name]
    if not incidents:
        return "nothing"
    reasons = dict.fromkeys(event.message.removeprefix(f"{name}: ") for event in incidents)
    text = "; ".join(reasons)
    return f"{text} ({plural(len(incidents), 'time')})" if len(incidents) > len(reasons) else text


SECTION = Section(name="nodes", title="Nodes", order=70, show=show)
