"""railbed discover"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from railbed.api.verbs.discover import Discovery, discover_stream, plan_contact, plan_discovery
from railbed.cli.chosen import ask
from railbed.cli.console import SafeConsole
from railbed.cli.hints import use_cluster_file
from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption
from railbed.cli.run.perform import show
from railbed.cli.screens.choose import make_screen
from railbed.cli.site import site_of_job
from railbed.cli.slurm.allocation import Allocation, read_allocation
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.text import plural
from railbed.present.wording import cluster_option

if TYPE_CHECKING:
    from railbed.cli.screens.contact import ContactScreen

HostsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="HOST", help="Machines as [user@]host[:port]. [default: those of the cluster file, else this one]"
    ),
]
SwitchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--switch",
        metavar="HOST",
        help="A switch to add to the file; one that is in the file is read for the cables to its ports.",
    ),
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="FILE", help="Private key file to log in with.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Account to log in to.")]
JumpOption = Annotated[str | None, typer.Option("--jump", metavar="HOST", help="Jump host, as [user@]host[:port].")]
SetUpOption = Annotated[
    bool,
    typer.Option(
        "--set-up", help="First make the machines admit a key: confirm their host keys, give one password for all."
    ),
]
UndoOption = Annotated[bool, typer.Option("--undo", help="With --set-up: remove what a set-up installed.")]
SudoOption = Annotated[
    bool | None,
    typer.Option(
        "--sudo/--no-sudo",
        help="With --set-up: let the account use sudo without a password. [default: the terminal asks]",
    ),
]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        metavar="PLACE",
        help="With --set-up: where the password is, env:NAME or keyring:SERVICE/USER. [default: the terminal asks]",
    ),
]
FingerprintOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fingerprint",
        metavar="SHA256:…",
        help="With --set-up: a host key that is confirmed already; may be repeated.",
    ),
]
WriteOption = Annotated[bool, typer.Option("--write", help="Update an existing file; comments are preserved.")]


def discover_command(
    hosts: HostsArgument = None,
    switch: SwitchOption = None,
    user: UserOption = None,
    key: KeyOption = None,
    jump: JumpOption = None,
    cluster: ClusterOption = None,
    write: WriteOption = False,
    set_up: SetUpOption = False,
    undo: UndoOption = False,
    sudo: SudoOption = None,
    password: PasswordOption = None,
    fingerprint: FingerprintOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Read machines and write the cluster file; on an existing file, show what changed.

    Example: railbed discover ubuntu@192.168.250.201 ubuntu@192.168.250.202

    Machines that admit no key yet: railbed discover --set-up ubuntu@192.168.250.201 ubuntu@192.168.250.202
    """
    allocation = _allocation(cluster, hosts, set_up=set_up)
    use_cluster_file(cluster)
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout)
    chosen = _contact_screen() if set_up and not as_json else None
    confirm = partial(ask, before=chosen.show_keys) if chosen and sys.stdin.isatty() else None
    keys = fingerprint or ()
    contact = plan_contact(set_up, undo=undo, sudo=sudo, password=password, fingerprints=keys, confirm=confirm)
    discovery = plan_discovery(
        hosts or (),
        None if allocation else cluster,
        switches=switch or (),
        login={"user": user, "key": key, "jump": jump},
        write=write,
        contact=contact,
        reach=options,
        allocated=allocation.machines if allocation else None,
        narrow=allocation.narrow if allocation else None,
    )
    screen = chosen or make_screen(as_json=as_json, verbose=False, cluster=discovery.machines)
    code = show(discover_stream(discovery, reach=options), screen)
    if discovery.cluster and not as_json:
        flags = {"--switch": switch or (), "--user": [user], "--key": [key], "--jump": [jump], "--replay": [replay]}
        words = [*(hosts or ()), *(word for flag in flags for value in flags[flag] if value for word in (flag, value))]
        again = shlex.join(["railbed", "discover", *map(str, words)]) + cluster_option(cluster)
        _print_outcome(discovery, discovery.cluster, again=again)
    return code


def _contact_screen() -> ContactScreen:
    from railbed.cli.screens.contact import ContactScreen  # drawing is slow to load

    return ContactScreen()


def _allocation(cluster: Path | None, hosts: Sequence[str] | None, *, set_up: bool) -> Allocation | None:
    """Return what the job around us has, if the cluster is `slurm`: its nodes are read, and written to a file here."""
    site = site_of_job(cluster) if cluster else None
    if site is None:
        return None
    if set_up:
        raise UsageError("`-c slurm` and --set-up do not go together", hint="Slurm's nodes need no login")
    if hosts:
        raise UsageError("`-c slurm` reads the nodes of the job, and no others", hint="leave out the machines")
    return read_allocation(site)


def _print_outcome(discovery: Discovery, cluster: Cluster, *, again: str) -> None:
    console = SafeConsole(stderr=True, highlight=False)
    rdma_ports = sum(bool(port.rdma) for _, port in cluster.ports())
    gpus = sum(len(node.gpus) for node in cluster.nodes.values())
    sizes = {"node": len(cluster.nodes), "rail": len(cluster.rails), "RDMA port": rdma_ports, "GPU": gpus}
    counts = ", ".join(plural(count, noun) for noun, count in sizes.items())
    option = cluster_option(discovery.file)
    if discovery.has_written:
        message = f"written: {counts}; next: railbed check{option}"
    elif discovery.before == cluster:
        message = f"unchanged: {counts}"
    else:
        message = f"not written; `{again} --write` makes these changes"
    console.print(Text(f"{discovery.file}: {message}"))
