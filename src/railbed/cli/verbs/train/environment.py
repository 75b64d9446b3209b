"""railbed train --show-env: the environment of the ranks on each node, with reasons; starts nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from railbed.api.exits import DEVICE, OK
from railbed.cli.console import SafeConsole
from railbed.cli.run.signals import run_until_ended
from railbed.fleet import Fleet, read_facts
from railbed.launch.fabric import FACTS, NodeFabric, fabric_of
from railbed.model.cluster import Cluster
from railbed.model.text import printable
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector


def show_env(cluster: Cluster, *, timeout: float, as_json: bool) -> int:
    """Read the nodes, print, and return the exit code: 0 if every node answered."""
    fabrics, answered = run_until_ended(_read(cluster, timeout))
    if as_json:
        _print_json(fabrics)
    else:
        _print_tables(fabrics)
    return OK if answered else DEVICE


async def _read(cluster: Cluster, timeout: float) -> tuple[dict[str, NodeFabric], bool]:
    async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=timeout) as fleet:
        facts = await read_facts(fleet, cluster, FACTS)
    return fabric_of(cluster, facts), all(answer.failure is None for answer in facts.values())


def _print_json(fabrics: Mapping[str, NodeFabric]) -> None:
    for node, fabric in fabrics.items():
        lines = [{"name": line.name, "value": line.value, "reason": line.reason} for line in fabric.lines]
        head = {"kind": "environment", "node": node, "rdma": not fabric.obstacle, "obstacle": fabric.obstacle}
        sys.stdout.write(json.dumps({**head, "remedy": fabric.remedy, "lines": lines}) + "\n")


def _print_tables(fabrics: Mapping[str, NodeFabric]) -> None:
    console = SafeConsole(highlight=False)
    for node, fabric in fabrics.items():
        console.print(Text(printable(node), style="bold"))
        if fabric.obstacle:
            console.print(Text(f" no RDMA: {printable(fabric.obstacle)}", style="yellow"))
        if fabric.remedy:
            console.print(Text(f" → {printable(fabric.remedy)}", style="cyan"))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 1), pad_edge=True)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold", style="dim")
        for line in fabric.lines:
            setting = f"{line.name}={line.value}" if line.variable else f"{line.name} {line.value}"
            table.add_row(printable(setting), printable(line.reason))
        console.print(table)
        console.print()
