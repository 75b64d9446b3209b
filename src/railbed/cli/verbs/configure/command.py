"""The options of railbed configure; `run.py` does the work, and is loaded later because `--help` must be quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption, YesOption
from railbed.model.limits import DEVICE_SECONDS

ApplyOption = Annotated[bool, typer.Option("--apply", help="Make the changes, after asking once, and check again.")]
UndoOption = Annotated[
    str | None, typer.Option("--undo", metavar="RUN", help="Restore what a run changed: a name, a folder, or newest.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="With --undo: also undo what somebody has changed since.")
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="DEVICE", help="Change only these devices: node1,node2; may be repeated."),
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="Only the fixes of these rules, also those that need a decision; may be repeated.",
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Also the changes that need a decision, which are listed with it.")
]
RenderOption = Annotated[
    Path | None, typer.Option("--render", metavar="DIR", help="Write the changes to files, to apply them by hand.")
]
WheelsOption = Annotated[
    Path | None,
    typer.Option("--wheels", metavar="DIR", help="Install Python environments from these wheels, without an index."),
]

PowerCycleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--power-cycle",
        metavar="NODE",
        help="Instead of fixes: switch these nodes off and on through their BMCs; may be repeated.",
    ),
]


def configure_command(
    apply: ApplyOption = False,
    yes: YesOption = False,
    undo: UndoOption = None,
    overwrite: OverwriteOption = False,
    only: OnlyOption = None,
    rule: RuleOption = None,
    everything: AllOption = False,
    render: RenderOption = None,
    wheels: WheelsOption = None,
    power_cycle: PowerCycleOption = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Show the changes that fix what `check` reports; with --apply, make them and check again.

    Example: railbed configure --apply
    """
    from railbed.cli.verbs.configure.run import Wanted, configure_cluster

    wanted = Wanted(
        apply=apply,
        yes=yes,
        undo=undo,
        overwrite=overwrite,
        only=only or (),
        rules=rule or (),
        everything=everything,
        render=render,
        wheels=wheels,
        power_cycle=power_cycle or (),
    )
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout)
    return configure_cluster(cluster, options, wanted)
