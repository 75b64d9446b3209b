"""Who took part, and with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railbed.report.blocks import Block, Cell, Mark, Table
from railbed.report.reading.history import generations
from railbed.report.reading.run import RunData
from railbed.report.section import Section
from railbed.report.words import plural

COLUMNS = ("node", "generations", "ranks", "device", "computes in", "transport", "torch", "what happened")
HAPPENED = {"node_lost": "lost", "node_cut": "cut off", "node_out": "left out", "restart": "restart"}


def show(run: RunData) -> Sequence[Block] | None:
    """Show one row for each node that ranks were started on, or that was lost before."""
    found = generations(run)
    chosen: dict[str, list[Mapping[str, object]]] = {}
    for event in run.told("chosen"):
        chosen.setdefault(event.subject.partition("/")[0], []).append(event.data)
    lost = [event.subject for event in run.told("node_lost", "node_cut")]
    names = dict.fromkeys([*(node for one in found for node in one.nodes), *chosen, *lost])
    if not names:
        return None
    rows = []
    for name in names:
        parts = ", ".join(str(one.number) for one in found if name in one.nodes)
        rows.append((name, parts or Mark("none", "bad"), *_chosen(chosen.get(name, [])), _happened(run, name)))
    return [Table(COLUMNS, rows)]


def _chosen(told: Sequence[Mapping[str, object]]) -> tuple[Cell, ...]:
    def of(*keys: str) -> str:
        """Return the different values of the node's ranks."""
        values = [" ".join(str(one[key]) for key in keys if key in one) for one in told]
        return ", ".join(value for value in dict.fromkeys(values) if value)

    ranks = {one.get("rank") for one in told}
    compiled = any(one.get("compile") for one in told)
    precision = of("precision") + (", compiled" if compiled else "")
    ranks_told = str(len(ranks)) if told else ""
    return ranks_told, of("device", "device_name"), precision, of("transport"), of("torch_version")


def _happened(run: RunData, name: str) -> Cell:
    events = [event for event in run.told(*HAPPENED) if event.subject == name]
    if not events:
        return "nothing"
    reasons = dict.fromkeys(event.message.removeprefix(f"{name}: ") for event in events)
    words = "; ".join(reasons)
    return f"{words} ({plural(len(events), 'time')})" if len(events) > len(reasons) else words


SECTION = Section(name="nodes", title="Nodes", order=70, show=show)
