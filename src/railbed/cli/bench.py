"""railbed bench"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railbed.bench import baseline, experiments, suites
from railbed.bench.catalogue import COLLECTIVES, tool_of
from railbed.bench.run import Order, bench
from railbed.bench.versus import compare_arms
from railbed.cli.benchscreen import BenchScreen
from railbed.cli.exits import OK
from railbed.cli.options import (
    DEFAULT_CLUSTER,
    ClusterOption,
    JsonOption,
    Options,
    RecordOption,
    ReplayOption,
    TimeoutOption,
)
from railbed.cli.perform import perform
from railbed.cli.screen import JsonScreen
from railbed.cli.site import built_in_local, given_cluster
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.fleet.fleet import DEVICE_SECONDS
from railbed.model.record import Measurement, Record
from railbed.store import list_runs

SuiteArgument = Annotated[str, typer.Argument(metavar="SUITE", help="A suite by name, or a file.")]
ExperimentOption = Annotated[
    str | None, typer.Option("--experiment", metavar="NAME|FILE", help="Compare two arms, measured in turns, instead.")
]
SaveOption = Annotated[
    bool, typer.Option("--save-baseline", help="Keep the numbers beside the cluster file, to judge later runs by.")
]
ListOption = Annotated[bool, typer.Option("--list", help="List the suites and tests, and end.")]
AllOption = Annotated[bool, typer.Option("--all", help="List every measurement and finding line by line.")]


def bench_command(
    suite: SuiteArgument = "quick",
    experiment: ExperimentOption = None,
    cluster: ClusterOption = None,
    save: SaveOption = False,
    listing: ListOption = False,
    everything: AllOption = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Measure RDMA, TCP, disks and collectives between the nodes, and judge what came out.

    Example: railbed bench quick
    """
    if listing:
        _list(as_json=as_json)
        return OK
    site = given_cluster(cluster, replay) or built_in_local()
    if experiment is not None and save:
        raise UsageError("an experiment makes no baseline", hint="leave out --experiment or --save-baseline")
    kept = baseline.path_beside(cluster or DEFAULT_CLUSTER)
    question = experiments.load(experiment) if experiment is not None else None
    order = Order(name=suite, suite=suites.load(suite), baseline=None if save else baseline.read(kept))
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout, verbose=everything)
    measured: list[Measurement] = []

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        if question is not None:
            return compare_arms(site, fleet, question, experiment or "")
        return _noting(measured, bench(site, fleet, order))

    screen = JsonScreen() if as_json else BenchScreen(verbose=everything)
    code = perform("bench", site, options, work, screen=screen)
    if save and measured:
        _save(kept, measured, site.name)
    return code


async def _noting(measured: list[Measurement], records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """Pass the records on, and keep the measurements that go by among them."""
    async with aclosing(records):
        async for record in records:
            if isinstance(record, Measurement):
                measured.append(record)
            yield record


def _save(path: Path, measured: list[Measurement], cluster: str) -> None:
    run = next((one.id for one in list_runs()), "")
    made = baseline.made_of(measured, cluster=cluster, run=run, saved=time.time())
    baseline.write(path, made)
    Console(stderr=True, highlight=False).print(
        Text(f"{path}: {len(made.measures)} measurements to judge later runs by")
    )


def _list(*, as_json: bool) -> None:
    found = {name: suites.load(name).description for name in suites.names()}
    questions = {name: experiments.load(name).description for name in experiments.names()}
    tests = {name: tool.tests[name].title for name, tool in tool_of().items()}
    tests |= {name: f"{name.replace('_', '-')} over all nodes in one job" for name in COLLECTIVES}
    if as_json:
        for kind, entries in (("suite", found), ("experiment", questions), ("test", tests)):
            for name, description in entries.items():
                line = to_json({"kind": kind, "name": name, "description": description})
                sys.stdout.write(line.decode() + "\n")
        return
    console = Console(highlight=False)
    for title, entries in (("suites", found), ("experiments", questions), ("tests", tests)):
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
        )
        for name, description in entries.items():
            table.add_row(f"  {name}", description)
        console.print(table)
