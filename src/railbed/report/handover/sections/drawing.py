"""The drawing: nodes above and below the switches, a line for each link, in the colour of its rail."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.cabling import Topology, topology
from railbed.present.wording import name_range, plural
from railbed.report.blocks import Block, Code, MapBlock, MapBox, MapLine, TableBlock, TextBlock
from railbed.report.document import Section
from railbed.report.handover.data import HandoverData

COLUMNS = ("node", "interface", "rail", "speed, Gb/s", "far end")
IN_A_ROW = 4
"""So many are readable at the width of a phone."""
MOST_BOXES = 24
COLOURS = 12
BOX_WIDTH, BOX_HEIGHT, COLUMN, ROW = 92.0, 30.0, 108.0, 80.0
LINE_GAP = 10.0


def show(data: HandoverData) -> Sequence[Block]:
    """Show the drawing, and the same as a table."""
    drawn = topology(data.cluster)
    if not drawn.links:
        return [TextBlock(data.with_file("No links are known: `railbed discover HOST…` finds ports and cables."))]
    rows = [
        (
            link.node,
            Code(link.port),
            link.rail,
            f"{link.speed:g}" if link.speed is not None else "not stated",
            f"{link.peer} {link.peer_port}".strip() if link.peer != link.rail else "a switch that is not in the file",
        )
        for link in drawn.links
    ]
    return [_drawing(data.cluster.name, drawn, TableBlock(COLUMNS, rows, numbers=COLUMNS[3:4]))]


def _drawing(name: str, drawn: Topology, table: TableBlock) -> MapBlock:
    groups = _groups(drawn)
    rows = _rows([*groups], drawn.switches)
    width = COLUMN * max(len(row) for row in rows)
    places = {
        label: ((column + 0.5) * width / len(row), (level + 0.5) * ROW)
        for level, row in enumerate(rows)
        for column, label in enumerate(row)
    }
    group_of = {node: label for label, nodes in groups.items() for node in nodes}
    rails = list(dict.fromkeys(link.rail for link in drawn.links))
    colours = {rail: index % COLOURS + 1 for index, rail in enumerate(rails)}
    return MapBlock(
        title=f"{name}: {plural(len(drawn.nodes), 'node')}, {plural(len(drawn.links), 'link')}",
        width=width,
        height=ROW * len(rows),
        box_width=BOX_WIDTH,
        box_height=BOX_HEIGHT,
        boxes=[MapBox(x=x, y=y, text=label, is_switch=label in drawn.switches) for label, (x, y) in places.items()],
        lines=_lines(drawn, places, group_of, colours),
        keys=list(colours.items()),
        table=table,
    )


def _groups(drawn: Topology) -> dict[str, Sequence[str]]:
    """Return the nodes of each box: one, or with many nodes all that are linked to the same devices."""
    if len(drawn.nodes) <= MOST_BOXES:
        return {node: (node,) for node in drawn.nodes}
    peers: dict[str, set[str]] = {node: set() for node in drawn.nodes}
    for link in drawn.links:
        peers[link.node].add(link.peer)
    alike: dict[frozenset[str], list[str]] = {}
    for node, linked in peers.items():
        alike.setdefault(frozenset(linked), []).append(node)
    return {name_range(nodes, shortened=True): nodes for nodes in alike.values()}


def _rows(boxes: Sequence[str], switches: Sequence[str]) -> list[Sequence[str]]:
    """Return the rows from the top: half of the nodes, the switches, the rest."""
    rows = [boxes[at : at + IN_A_ROW] for at in range(0, len(boxes), IN_A_ROW)]
    middle = [switches[at : at + IN_A_ROW] for at in range(0, len(switches), IN_A_ROW)]
    half = (len(rows) + 1) // 2
    return [*rows[:half], *middle, *rows[half:]]


def _lines(
    drawn: Topology,
    places: dict[str, tuple[float, float]],
    group_of: dict[str, str],
    colours: dict[str, int],
) -> list[MapLine]:
    """Return a line for each link; links between the same boxes are side by side, those of one rail only once."""
    ends: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
    for link in drawn.links:
        near, far = group_of[link.node], group_of.get(link.peer, link.peer)
        port = link.port if len(group_of) == len({*group_of.values()}) else ""
        text = f"{link.node}/{link.port} – {link.peer} {link.peer_port}".strip()
        ends.setdefault((near, far), {}).setdefault((link.rail, port), []).append(text)
    lines = []
    for (near, far), links in ends.items():
        (x1, y1), (x2, y2) = places[near], places[far]
        for place, ((rail, _), texts) in enumerate(links.items()):
            shift = (place - (len(links) - 1) / 2) * LINE_GAP
            across = (0.0, shift) if y1 == y2 else (shift, 0.0)
            lines.append(
                MapLine(
                    x1=round(x1 + across[0], 1),
                    y1=round(y1 + across[1], 1),
                    x2=round(x2 + across[0], 1),
                    y2=round(y2 + across[1], 1),
                    text=f"{rail}: {texts[0]}" if len(texts) == 1 else f"{rail}: {plural(len(texts), 'link')}",
                    colour=colours[rail],
                )
            )
    return lines


SECTION = Section(name="drawing", title="The network", order=10, show=show)
