"""railbed submit: runs a verb as a Slurm job.

The verb and its arguments are checked now, not after hours in a queue. Options of sbatch with which a job would not be
that of one run are refused, in the command and in the environment.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from railbed.api.exits import OK
from railbed.api.kinds import SUBMITTED_TRAINING
from railbed.cli.background.attach import follow_job, to_attach_job, to_stop_job
from railbed.cli.background.runs import was_given
from railbed.cli.chosen import chosen_run
from railbed.cli.options import JsonOption
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen
from railbed.cli.site import SLURM_NAME
from railbed.cli.slurm.lookup import job_in
from railbed.cli.slurm.script import LONGEST_NOTICE, NOTICE_SECONDS, JobRequest, batch_script
from railbed.errors import DeviceError, ParseError, RailbedError, TimedOut, UsageError
from railbed.model.events import Submitted
from railbed.model.slurm_options import HETEROGENEOUS, ONE_RUN, SBATCH, find_reserved, reserved_variables
from railbed.model.text import expand_home, is_file
from railbed.store import new_run, runs_folder, set_status, write_atomically
from railbed.store.find import read_start, require_own_training
from railbed.store.run import ABOUT, PRIVATE, refuse_replaceable, require_private_run
from railbed.store.submitted import SCRIPT, note_job, was_submitted
from railbed.transport.queue import cancel_job, largest_jobs, own_jobs, submit_script
from railbed.transport.slurm import SlurmSilent


def refuse_reserved(further: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise UsageError for the first option that `submit` cannot use, with its name and the reason."""
    for word in further:
        if word in HETEROGENEOUS:
            raise UsageError(
                f"--sbatch {word!r} would make a heterogeneous job, which submit cannot use: {ONE_RUN}",
                hint="`--nodes` and `--constraint` choose nodes of one kind",
            )
        if word.startswith("-") and (option := find_reserved(word, SBATCH)):
            typed = "" if word.startswith(f"--{option.name}") else f" ({word})"
            raise UsageError(f"--sbatch=--{option.name}{typed} cannot be used: {option.why}", hint=option.hint)
    for option in reserved_variables(environment):
        raise UsageError(
            f"{option.variable} is set, and sbatch's --{option.name} cannot be used: {option.why}",
            hint=f"`unset {option.variable}`",
        )


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
        experiment = experiments.load(parameters["experiment"])
        if experiment.configures and not parameters["yes"]:
            raise UsageError(
                "there is no terminal to ask on in a job", hint="give --yes to make the changes of the arm"
            )


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


CLUSTER = "slurm"
ELSEWHERE = ("-p", "--partition", "-M", "--cluster", "-N", "--nodes")
VerbArgument = Annotated[str, typer.Argument(metavar="VERB", help="What the job runs: train, bench or check.")]
WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]…", help="The verb's own arguments and options.", show_default=False),
]
NodesOption = Annotated[int, typer.Option("--nodes", "-N", metavar="N", min=1, help="How many nodes.")]
TimeOption = Annotated[
    str,
    typer.Option("--time", "-t", metavar="LIMIT", help="Time limit, as sbatch takes it: 4:00:00. [default: Slurm's]"),
]
PartitionOption = Annotated[
    str, typer.Option("--partition", "-p", metavar="NAME", help="Partition.", show_default=False)
]
AccountOption = Annotated[str, typer.Option("--account", "-A", metavar="NAME", help="Account.", show_default=False)]
QosOption = Annotated[str, typer.Option("--qos", "-q", metavar="NAME", help="Quality of service.", show_default=False)]
GresOption = Annotated[str, typer.Option("--gres", metavar="LIST", help="Per node, such as gpu:8.", show_default=False)]
ConstraintOption = Annotated[
    str, typer.Option("--constraint", metavar="LIST", help="Features that nodes must have.", show_default=False)
]
FurtherOption = Annotated[
    list[str] | None,
    typer.Option("--sbatch", metavar="OPTION", help="Any other option of sbatch: --sbatch=--mem=64G; repeatable."),
]
ShareOption = Annotated[bool, typer.Option("--share", help="Let other jobs use the same nodes.")]
NoticeOption = Annotated[
    int,
    typer.Option(
        "--notice",
        metavar="SECONDS",
        min=1,
        max=LONGEST_NOTICE,
        help="How long before the time limit training saves its state and requeues itself.",
    ),
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Print the batch script, and do nothing else.")]
NoFollowOption = Annotated[bool, typer.Option("--no-follow", help="Return once the job is in the queue.")]


def submit_command(
    verb: VerbArgument,
    words: WordsArgument = None,
    nodes: NodesOption = 1,
    limit: TimeOption = "",
    partition: PartitionOption = "",
    account: AccountOption = "",
    qos: QosOption = "",
    gres: GresOption = "",
    constraint: ConstraintOption = "",
    further: FurtherOption = None,
    share: ShareOption = False,
    notice: NoticeOption = NOTICE_SECONDS,
    dry: DryOption = False,
    no_follow: NoFollowOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run a verb as a Slurm job: submit it, and follow it until it ends; training survives what schedulers do.

    Example: railbed submit train tiny --nodes 4 --time 4:00:00
    """
    named = {"partition": partition, "account": account, "qos": qos, "gres": gres, "constraint": constraint}
    request = JobRequest(
        nodes=nodes,
        time=limit,
        named={name: value for name, value in named.items() if value},
        further=further or (),
        shares=share,
        notice=notice,
    )
    refuse_reserved(request.further, os.environ)
    resumed, own = split_resume(words or ()) if verb == "train" else (None, list(words or ()))
    command = checked_words(verb, own)
    if resumed is not None:
        refuse_recipe(own)
    before = _to_continue(resumed) if resumed is not None else None
    if dry:
        run = before or runs_folder().absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{verb}"
        sys.stdout.write(batch_script(request, verb, command, run=run, folder=Path.cwd()))
        return OK
    folder, number = _submit(request, verb, command, before)
    _announce(folder, number, nodes, as_json=as_json)
    return OK if no_follow else follow_job(folder, number, as_json=as_json, gives_up=True)


def _to_continue(name: str) -> Path:
    """Return the folder of a submitted run whose job has ended."""
    folder = chosen_run(name, SUBMITTED_TRAINING).absolute()
    if not was_submitted(folder):
        raise UsageError(
            f"{folder.name} was not submitted", hint=f"`railbed train --resume {folder.name}` continues it"
        )
    if queued := job_in(folder, run_until_ended(own_jobs()).values()):
        raise UsageError(f"job {queued.id} of {folder.name} is {queued.in_words}", hint=f"`{to_attach_job(folder)}`")
    read_start(folder)  # raises if there is nothing to continue
    require_own_training(folder)
    return folder


def _refuse_folder(folder: Path) -> None:
    """Refuse a folder that Slurm cannot start a job in, and one where others could replace the run meanwhile."""
    if any(character in str(folder) for character in "%\\\n"):
        raise UsageError(
            f"Slurm cannot start a job in {str(folder)!r}: it has a %, a backslash or a line break in its name",
            hint="run in another folder, or set RAILBED_RUNS",
        )
    refuse_replaceable(folder)


def _refuse_size(request: JobRequest) -> None:
    """Refuse more nodes than the partition has or allows: Slurm takes such a job, and never starts it.

    Options for sbatch that choose among clusters, partitions or sizes are left to Slurm.
    """
    if any(option.startswith(ELSEWHERE) for option in request.further):
        return
    partition = request.named.get("partition") or os.environ.get("SBATCH_PARTITION", "")
    try:
        most = run_until_ended(largest_jobs()).get(partition)
    except (SlurmSilent, TimedOut):
        raise
    except DeviceError:
        return  # sbatch gives the reason
    if most is not None and request.nodes > most:
        where = f"partition {partition}" if partition else "the default partition"
        raise UsageError(
            f"the job requests {request.nodes} nodes, and {where} gives a job at most {most}",
            hint="`sinfo` lists partitions and their limits; -p chooses one, -N fewer nodes",
        )


def _new_folder(verb: str) -> Path:
    """Make the folder of a run that waits for its job."""
    run = new_run(verb, cluster_name=CLUSTER, arguments=sys.argv[1:], status="waiting")
    return runs_folder().absolute() / run.id


def _submit(request: JobRequest, verb: str, command: list[str], before: Path | None) -> tuple[Path, int]:
    """Write the script into the run's folder, and submit it; a new run that is refused leaves nothing."""
    batch_script(request, verb, command, run=Path("/"), folder=Path("/"))  # raises before anything is created
    _refuse_folder(before or runs_folder().absolute() / verb)
    _refuse_size(request)
    folder = before or _new_folder(verb)
    about = (folder / ABOUT).read_bytes() if before else None
    try:
        require_private_run(folder)
        script = batch_script(request, verb, command, run=folder, folder=Path.cwd())
        write_atomically(folder / SCRIPT, script.encode("utf-8", "surrogateescape"), mode=0o700)
        if before is not None:
            set_status(folder, "waiting")
        number = run_until_ended(submit_script(folder / SCRIPT))
    except BaseException as error:
        _withdraw(folder, about, may_be_taken=_may_be_taken(error))
        raise
    note_job(folder, number)
    return folder, number


def _may_be_taken(error: BaseException) -> bool:
    """Whether Slurm may have taken the job although its answer did not arrive."""
    return isinstance(error, TimedOut | ParseError) or not isinstance(error, RailbedError | OSError)


def _withdraw(folder: Path, about: bytes | None, *, may_be_taken: bool) -> None:
    """Leave nothing of a submission that failed, after cancelling its job if Slurm has taken it.

    If Slurm does not answer, the folder stays: the job is found by it later.
    """
    try:
        if may_be_taken and (job := job_in(folder, run_until_ended(own_jobs()).values())):
            run_until_ended(cancel_job(job.id))
    except RailbedError:
        return
    if about is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        write_atomically(folder / ABOUT, about, mode=PRIVATE)


def _announce(folder: Path, number: int, nodes: int, *, as_json: bool) -> None:
    if as_json:
        JsonScreen().show(Submitted(subject=folder.name, run=folder.name, folder=str(folder), job=number, nodes=nodes))
        return
    sys.stderr.write(f"job {number} is {folder.name}, in {folder}\n")
    for command, what in ((to_attach_job(folder), "shows it"), (to_stop_job(folder), "stops it")):
        sys.stderr.write(f"  {command:<48} {what}\n")
