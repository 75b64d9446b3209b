"""railbed bench"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.table import Table
from rich.text import Text

from railbed.api.exits import OK
from railbed.api.site import built_in_local
from railbed.api.stored import Run
from railbed.api.verbs.bench import FIRST_VISIT, bench, save_baseline
from railbed.bench import baseline, experiments, suites
from railbed.bench.book import BENCH_BOOK
from railbed.bench.tool import COLLECTIVES, tool_of
from railbed.catalog import choose
from railbed.cli.chosen import ask, chosen_run, require_terminal
from railbed.cli.console import SafeConsole
from railbed.cli.explain import explain_rule
from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption, YesOption
from railbed.cli.run.perform import show
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.bench import BenchScreen
from railbed.cli.site import given_cluster
from railbed.errors import UsageError
from railbed.model.events import FirstVisitDone
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.text import plural
from railbed.present.wording import DEFAULT_CLUSTER, cluster_option

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
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule and exit.")]
ListOption = Annotated[bool, typer.Option("--list", help="List the suites and tests, and exit.")]
AllOption = Annotated[bool, typer.Option("--all", help="List every measurement and finding line by line.")]


def bench_command(
    suite: SuiteArgument = "quick",
    experiment: ExperimentOption = None,
    second_visit: SecondVisitOption = None,
    cluster: ClusterOption = None,
    save: SaveOption = False,
    listing: ListOption = False,
    explain: ExplainOption = None,
    everything: AllOption = False,
    yes: YesOption = False,
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
    if explain is not None:
        rules = BENCH_BOOK.rules
        rule = choose(rules, explain, kind="rule", listing=f"the rules are {', '.join(rules)}")
        return explain_rule(rule, as_json=as_json)
    _refuse_contradictions(experiment, second_visit, save=save)
    if experiment is not None and not yes and experiments.load(experiment).configures:
        require_terminal(json=as_json)
    site = given_cluster(cluster, replay) or built_in_local()
    baseline_file = baseline.path_beside(cluster or DEFAULT_CLUSTER)
    screen = JsonScreen() if as_json else BenchScreen(verbose=everything, cluster=site)
    stream = bench(
        site,
        suite,
        experiment=experiment,
        second_visit=None if second_visit is None else chosen_run(second_visit, FIRST_VISIT),
        baseline=None if save else baseline_file,
        confirm=None if yes else partial(ask, before=screen.line.clear),
        reach=Options(json=as_json, record=record, replay=replay, timeout=timeout, verbose=everything),
    )
    code = show(stream, screen)
    if save and (count := save_baseline(stream.run, baseline_file)):
        _print_notice(f"{baseline_file}: {plural(count, 'measurement')} to judge later runs by")
    if second_visit is None and experiment is not None:
        _print_second_visit(stream.run, cluster)
    return code


def _refuse_contradictions(experiment: str | None, second_visit: str | None, *, save: bool) -> None:
    """Refuse options that do not go together."""
    if experiment is not None and second_visit is not None:
        raise UsageError("--experiment and --second-visit cannot be combined", hint="the run contains its experiment")
    if save and (experiment is not None or second_visit is not None):
        raise UsageError("an experiment has no baseline", hint="leave out --save-baseline")


def _print_second_visit(run: Run, cluster: Path | None) -> None:
    """Print what to do before the second visit, and the command for it, if the run is a first visit."""
    for event in run.events():
        if isinstance(event, FirstVisitDone):
            command = f"railbed bench --second-visit {run.id}{cluster_option(cluster)}"
            _print_notice(f"{event.message}: {command}")


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
