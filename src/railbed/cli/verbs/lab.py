"""railbed lab"""

from __future__ import annotations

import os
import shlex
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer
from typer.core import TyperCommand

from railbed import clusterfile
from railbed.api.verbs.lab import Lab
from railbed.cli.options import JsonOption
from railbed.cli.screens.lab import run_lab_verb, show_status, show_up
from railbed.errors import ClusterFileError, ToolMissing, UsageError
from railbed.lab import folder
from railbed.lab.host import program_path
from railbed.lab.model import (
    AcceleratorName,
    ArchitectureName,
    FaultName,
    KindName,
    PlatformName,
    SchedulerName,
)
from railbed.lab.up import targets
from railbed.present.wording import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from typer._click.core import Context

HELP = {"help_option_names": ["-h", "--help"]}
DEFAULT_PLATFORM: PlatformName = "n9k"
QUICK_LOGIN = "-oKexAlgorithms=^curve25519-sha256"
"""Preferred: a login to a lab never leaves this machine, and an exchange against quantum computers takes 0.2 s more."""
BASH_OR_SH = 'exec "$(command -v bash || echo sh)"'
lab_command = typer.Typer(help="A cluster on this machine, with real SSH and, as virtual machines, real RoCEv2.")
fault_command = typer.Typer(help="Cause a fault on purpose, and heal it. `lab status` lists the faults in force.")
lab_command.add_typer(fault_command, name="fault")

NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="Name of the lab. [default: that of cluster.yaml here, else the only lab]"
    ),
]
SwitchOption = Annotated[
    PlatformName | None,
    typer.Option(
        "--switch",
        metavar="[PLATFORM]",
        help=f"Add an emulated Nexus: {', '.join(get_args(PlatformName))}. Without a value, {DEFAULT_PLATFORM}.",
    ),
]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="A node, such as node1.")]
RailArgument = Annotated[str, typer.Argument(metavar="RAIL", help="A rail, such as rail0.")]
TargetArgument = Annotated[str, typer.Argument(metavar="NODE|RAIL", help="A node or a rail.")]
MemoryOption = Annotated[
    int,
    typer.Option(
        "--memory", metavar="MB", min=0, show_default=False, help="Memory of a virtual machine. [default: as needed]"
    ),
]
ExtraOption = Annotated[
    Literal["training"] | None,
    typer.Option("--with", help="Install torch and MPI on virtual machines; namespaces use this machine's."),
]
ArchOption = Annotated[
    ArchitectureName | None,
    typer.Option("--arch", help="Processor of virtual machines; emulated if it is not this machine's."),
]
SchedulerOption = Annotated[
    SchedulerName | None,
    typer.Option("--scheduler", help="Run Slurm on the nodes, and a machine `controller` that submits jobs."),
]
AcceleratorOption = Annotated[
    AcceleratorName | None,
    typer.Option(
        "--accelerator",
        help="Run virtual machines with KVM or in emulation (tcg). [default: KVM, if it works]",
        show_default=False,
    ),
]
DeviceArgument = Annotated[
    str, typer.Argument(metavar="NODE|SWITCH|CONTROLLER", help="A node, nexus (the switch), or controller.")
]


class UpCommand(TyperCommand):
    """Accepts `--switch` without a value, which typer cannot express."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Insert the default platform behind a bare `--switch`."""
        complete = []
        for argument, following in pairwise([*args, "-"]):
            complete.append(argument)
            if argument == "--switch" and following.startswith("-"):
                complete.append(DEFAULT_PLATFORM)
        return super().parse_args(ctx, complete)


@lab_command.command("up", cls=UpCommand)
def lab_up(
    kind: Annotated[KindName, typer.Option("--kind", help="Namespaces, or virtual machines with RoCEv2.")] = "netns",
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="How many nodes.")] = 2,
    rails: Annotated[int, typer.Option("--rails", metavar="R", min=1, help="How many rails.")] = 1,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the lab.")] = folder.DEFAULT_NAME,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="RATE", help="Speed of every link: 1G, 10G, 40G, 500M, …")
    ] = None,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="TIME", help="Delay of every link: 50us, 2ms, …; needs netem.")
    ] = None,
    memory: MemoryOption = 0,
    extra: ExtraOption = None,
    arch: ArchOption = None,
    accelerator: AcceleratorOption = None,
    switch: SwitchOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Bring up a lab, and print how to use it when every node answers.

    Example: railbed lab up --kind netns --nodes 4
    """
    lab = Lab(
        name,
        kind=kind,
        nodes=nodes,
        rails=rails,
        rate=rate or None,
        delay=delay or None,
        memory=memory,
        training=extra == "training",
        arch=arch,
        accelerator=accelerator,
        switch=switch,
        scheduler=scheduler,
    )
    left = (
        f"the lab {name} was removed again; if that was interrupted, `railbed lab down --name {name}` removes the rest"
    )
    records = run_lab_verb(lab.up(), as_json=as_json, interrupted=left)
    if not as_json:
        show_up(lab.spec, records, folder.name_option(name))
    return 0


@lab_command.command("down")
def lab_down(name: NameOption = None, as_json: JsonOption = False) -> int:
    """End a lab and remove everything it created.

    Example: railbed lab down
    """
    left = "run `railbed lab down` again to remove the rest"
    run_lab_verb(Lab(named_or_here(name)).down(), as_json=as_json, interrupted=left)
    return 0


@lab_command.command("status")
def lab_status(as_json: JsonOption = False) -> int:
    """Show the labs, their nodes, and the faults in force.

    Example: railbed lab status
    """
    records = run_lab_verb(Lab().status(), as_json=as_json)
    if not as_json:
        show_status(records, here=lab_here())
    return 0


@lab_command.command("shell")
def lab_shell(
    node: DeviceArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND", help="Run this command instead of a shell: separate words, or a quoted line."
        ),
    ] = None,
    name: NameOption = None,
) -> int:
    """Log in to a node, the switch or the controller of a lab with ssh.

    Example: railbed lab shell node1
    """
    lab = folder.chosen_lab(named_or_here(name))
    if node not in lab.devices:
        raise UsageError(f"{node!r} is not a node of lab {lab.spec.name!r}", hint=f"it has {', '.join(lab.devices)}")
    ssh = program_path("ssh")
    if ssh is None:
        raise ToolMissing("ssh is not installed", hint="`apt-get install openssh-client` installs it")
    target = next(target for target in targets(lab) if target.name == node)
    options = [
        f"-oUserKnownHostsFile={lab.known_hosts}",
        "-oStrictHostKeyChecking=yes",
        "-oIdentitiesOnly=yes",
        QUICK_LOGIN,
    ]
    port = ["-p", str(target.login.port)] if target.login.port else []
    line = _line(command) if target.kind == "node" else [" ".join(command)] if command else []
    sys.stdout.flush()
    os.execv(ssh, ["ssh", *options, "-i", str(lab.key), *port, f"{target.login.user}@{target.host}", *line])  # noqa: S606


def _line(command: list[str] | None) -> list[str]:
    """Return a command as one line for the node's shell: ssh alone would join words without quoting.

    Interactive sessions get bash if it exists: the login shell of a node is minimal.
    """
    if not command:
        return ["-t", BASH_OR_SH] if sys.stdin.isatty() else []
    return command if len(command) == 1 else [shlex.join(command)]


def _inflict(name: str | None, as_json: bool, fault: FaultName, target: str, value: str | float | None = None) -> int:
    run_lab_verb(Lab(named_or_here(name)).fault(fault, target, value), as_json=as_json)
    return 0


@fault_command.command("cut")
def fault_cut(
    target: Annotated[str, typer.Argument(metavar="NODE|RAIL|SWITCH", help="A node, a rail, or the switch.")],
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Take down the links of a node's rails, or of all ports of a rail; SSH to the nodes still works.

    A switch loses its management link: SSH and NX-API end, the rails are not affected.
    """
    return _inflict(name, as_json, "cut", target)


@fault_command.command("freeze")
def fault_freeze(node: DeviceArgument, name: NameOption = None, as_json: JsonOption = False) -> int:
    """Freeze a node, the switch or the controller: it keeps its connections and does not answer."""
    return _inflict(name, as_json, "freeze", node)


@fault_command.command("kill")
def fault_kill(node: DeviceArgument, name: NameOption = None, as_json: JsonOption = False) -> int:
    """Cut the power of a node, the switch or the controller; `heal` starts it again.

    The switch starts from its startup configuration, and its rails are not affected.
    """
    return _inflict(name, as_json, "kill", node)


@fault_command.command("slow")
def fault_slow(
    target: TargetArgument,
    rate: Annotated[str, typer.Argument(metavar="RATE", help="1G, 500M, …")],
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Slow every link of a rail or of a node down to a rate."""
    return _inflict(name, as_json, "slow", target, rate)


@fault_command.command("lose")
def fault_lose(
    rail: RailArgument,
    percent: Annotated[str, typer.Argument(metavar="PERCENT", help="0.1, 5, …")],
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Lose packets of a rail, at random."""
    return _inflict(name, as_json, "lose", rail, percent)


@fault_command.command("mark")
def fault_mark(
    rail: RailArgument,
    rate: Annotated[str | None, typer.Argument(metavar="[RATE]", help="Mark packets above this rate.")] = None,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Mark packets of a rail as congested (ECN), as a switch's queue does."""
    return _inflict(name, as_json, "mark", rail, rate or None)


@fault_command.command("mtu")
def fault_mtu(
    node: NodeArgument,
    value: Annotated[int, typer.Argument(metavar="VALUE", help="Bytes, such as 1500.")],
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Change the MTU of a node's rails."""
    return _inflict(name, as_json, "mtu", node, value)


@fault_command.command("refuse")
def fault_refuse(
    switch: Annotated[str, typer.Argument(metavar="SWITCH", help="The switch, nexus.")],
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help="The beginning of the refused commands, such as rollback.")
    ],
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make the switch refuse every command with this beginning."""
    return _inflict(name, as_json, "refuse", switch, command)


@fault_command.command("heal")
def fault_heal(
    target: Annotated[
        str | None, typer.Argument(metavar="[NODE|RAIL|SWITCH|CONTROLLER]", help="Where. [default: everywhere]")
    ] = None,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Undo the faults of a node, a rail, the switch or the controller, or all."""
    run_lab_verb(Lab(named_or_here(name)).heal(target), as_json=as_json)
    return 0


def lab_here() -> str | None:
    """Return the name of the lab whose cluster file is in this folder; None if there is none."""
    if not DEFAULT_CLUSTER.exists():
        return None
    try:
        return folder.lab_of(clusterfile.load(DEFAULT_CLUSTER))
    except ClusterFileError:
        return None  # the verbs that need it explain what is wrong


def named_or_here(name: str | None) -> str | None:
    """Return the named lab, or that of this folder's cluster file; None leaves it to the only lab.

    If the file decides between several labs, its lab is named on standard error.
    """
    here = lab_here() if name is None else None
    if here is None:
        return name
    labs = [lab.spec.name for lab in folder.load_labs()]
    if labs and here not in labs:
        raise UsageError(
            f"{DEFAULT_CLUSTER} in this folder is of lab {here!r}, which is not up",
            hint=f"existing labs: {', '.join(labs)}; --name chooses one",
        )
    if len(labs) > 1:
        sys.stderr.write(f"lab {here!r}, of {DEFAULT_CLUSTER} in this folder\n")
    return here if labs else None
