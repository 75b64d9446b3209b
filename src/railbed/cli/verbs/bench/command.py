"""railbed bench"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.table import Table
from rich.text import Text

from railbed.api.exits import DEVICE, OK
from railbed.api.site import built_in_local
from railbed.api.tally import Conclusion, Tally, conclude
from railbed.bench import experiments, suites
from railbed.bench.compare.run import Ongoing
from railbed.bench.compare.visits import RUNS, is_first_visit, read_first_visit
from railbed.bench.judge import baseline
from railbed.bench.run import BenchRequest, bench
from railbed.bench.toolset import COLLECTIVES, tool_of
from railbed.cli.chosen import chosen_run
from railbed.cli.console import SafeConsole
from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption
from railbed.cli.run.perform import perform
from railbed.cli.screens.bench import BenchScreen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.site import given_cluster
from railbed.cli.verbs.bench.experiment import run_experiment
from railbed.cli.verbs.bench.notes import Noted
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.record import Record
from railbed.model.text.amount import plural
from railbed.present.commands import DEFAULT_CLUSTER
from railbed.store import RunKind

SuiteArgument = Annotated[str, typer.Argument(metavar="SUITE", help="A suite by name, or a file.")]
ExperimentOption = Annotated[
    str | None, typer.Option("--experiment", metavar="NAME|FILE", help="Compare two arms, measured in turns, instead.")
]
SecondVisitOption = Annotated[
    str | None,
    typer.Option(
        "--second-visit",
        metavar="RUN",
        help="Measure the other arm after this first visit: a name, a folder, or newest.",
    ),
]
SaveOption = Annotated[
    bool, typer.Option("--save-baseline", help="Save the numbers beside the cluster file, to judge later runs by.")
]
ListOption = Annotated[bool, typer.Option("--list", help="List the suites and tests, and exit.")]
AllOption = Annotated[bool, typer.Option("--all", help="List every measurement and finding line by line.")]
FIRST_VISIT = RunKind(noun="first visit of an experiment", fits=is_first_visit, hint=RUNS)


def bench_command(
    suite: SuiteArgument = "quick",
    experiment: ExperimentOption = None,
    second_visit: SecondVisitOption = None,
    cluster: ClusterOption = None,
    save: SaveOption = False,
    listing: ListOption = False,
    everything: AllOption = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Measure RDMA, TCP, disks and collectives between the nodes, and judge the results.

    Example: railbed bench quick
    """
    if listing:
        _list(as_json=as_json)
        return OK
    _refuse_contradictions(experiment, second_visit, save=save)
    site = given_cluster(cluster, replay) or built_in_local()
    baseline_file = baseline.path_beside(cluster or DEFAULT_CLUSTER)
    first = read_first_visit(chosen_run(second_visit, FIRST_VISIT), site) if second_visit is not None else None
    question = first.experiment if first else experiments.load(experiment) if experiment is not None else None
    request = BenchRequest(
        name=suite, suite=suites.load(suite), baseline=None if save else baseline.read(baseline_file)
    )
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout, verbose=everything)
    ongoing = Ongoing()

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        if question is not None:
            name = first.name if first else experiment or ""
            return run_experiment(site, fleet, question, name, first, ongoing=ongoing)
        return bench(site, fleet, request)

    noted = Noted()
    code = perform(
        "bench",
        site,
        options,
        work,
        decide=_conclude,
        screen=JsonScreen() if as_json else BenchScreen(verbose=everything),
        beside=noted.beside,
        closing=request.judge if question is None else ongoing.judge,
        changing=question is not None,
    )
    _close(noted, site.name, baseline_file if save else None, noted.second_visit(cluster))
    return code


def _refuse_contradictions(experiment: str | None, second_visit: str | None, *, save: bool) -> None:
    """Refuse options that do not go together."""
    if experiment is not None and second_visit is not None:
        raise UsageError("--experiment and --second-visit cannot be combined", hint="the run contains its experiment")
    if save and (experiment is not None or second_visit is not None):
        raise UsageError("an experiment has no baseline", hint="leave out --save-baseline")


def _conclude(tally: Tally) -> Conclusion:
    """Decide the exit code: 3 if nothing was measured."""
    conclusion = conclude(tally)
    return conclusion if conclusion.code != OK or tally.measured else Conclusion(DEVICE, "nothing was measured")


def _close(noted: Noted, cluster: str, baseline_file: Path | None, next_step: str) -> None:
    """Save the baseline if there is a file for it, and print what to do next."""
    if baseline_file and noted.measured:
        _save(baseline_file, noted, cluster)
    if next_step:
        _print_notice(next_step)


def _save(path: Path, noted: Noted, cluster: str) -> None:
    made = baseline.make_baseline(noted.measured, cluster=cluster, run=noted.folder.name, saved=time.time())
    baseline.write(path, made)
    _print_notice(f"{path}: {plural(len(made.measures), 'measurement')} to judge later runs by")


def _print_notice(sentence: str) -> None:
    SafeConsole(stderr=True, highlight=False, soft_wrap=True).print(Text(sentence))


def _list(*, as_json: bool) -> None:
    suite_texts = {name: suites.load(name).description for name in suites.names()}
    questions = {name: experiments.load(name).description for name in experiments.names()}
    tests = {name: tool.tests[name].title for name, tool in tool_of().items()}
    tests |= {name: f"{name.replace('_', '-')} over all nodes in one job" for name in COLLECTIVES}
    if as_json:
        for kind, entries in (("suite", suite_texts), ("experiment", questions), ("test", tests)):
            for name, description in entries.items():
                line = to_json({"kind": kind, "name": name, "description": description})
                sys.stdout.write(line.decode() + "\n")
        return
    console = SafeConsole(highlight=False)
    for title, entries in (("suites", suite_texts), ("experiments", questions), ("tests", tests)):
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
        )
        for name, description in entries.items():
            table.add_row(f"  {name}", description)
        console.print(table)
