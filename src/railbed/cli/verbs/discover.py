"""railbed discover"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.text import Text

from railbed import clusterfile
from railbed.api.exits import DEVICE, FOUND
from railbed.api.site import built_in_local, default_cluster, recorded_cluster_file
from railbed.api.tally import Conclusion, Tally
from railbed.cli.console import SafeConsole
from railbed.cli.hints import use_cluster_file
from railbed.cli.options import ClusterOption, JsonOption, Options, RecordOption, ReplayOption, TimeoutOption
from railbed.cli.run.perform import perform
from railbed.cli.site import site_of_job
from railbed.cli.slurm.allocation import Allocation, read_allocation
from railbed.discover.names import free_name
from railbed.discover.observation import Location, location_of
from railbed.discover.run import discover
from railbed.errors import UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster, Host, Login, Node
from railbed.model.cluster import Text as OneLine
from railbed.model.events import ClusterBuilt
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.names import name_from
from railbed.model.record import Change, Record
from railbed.model.text.amount import plural
from railbed.model.text.paths import expand_home, is_file
from railbed.present.commands import DEFAULT_CLUSTER, cluster_option
from railbed.store import followed, write_atomically
from railbed.yamlfile.read import BYTE_ORDER_MARK

HOST = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>\d{1,5}))?")

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
WriteOption = Annotated[bool, typer.Option("--write", help="Update an existing file; comments are preserved.")]


def discover_command(
    hosts: HostsArgument = None,
    switch: SwitchOption = None,
    user: UserOption = None,
    key: KeyOption = None,
    jump: JumpOption = None,
    cluster: ClusterOption = None,
    write: WriteOption = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> int:
    """Read machines and write the cluster file; on an existing file, show what changed.

    Example: railbed discover ubuntu@192.168.250.201 ubuntu@192.168.250.202
    """
    allocation = _allocation(cluster, hosts)
    file = DEFAULT_CLUSTER if allocation else cluster or DEFAULT_CLUSTER
    use_cluster_file(cluster)
    login = _login(user, key, jump)
    before = _existing(file, typed=not allocation and cluster is not None)
    # Without hosts, all machines of the file are read again, and login options apply to all of them.
    existing = before if hosts or before is None else before.model_copy(update={"login": login.over(before.login)})
    existing = allocation.machines if allocation else existing
    switches = [_switch_host(host) for host in switch or ()]
    machines = _with_switches(_machines(hosts or [], existing, login, replay), existing, switches)
    name = existing.name if existing else _name_of(file)
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout)
    clusters: list[Cluster] = []

    read = partial(discover, name=name, existing=existing, before=before, switches=switches)
    if allocation:
        read = partial(read, narrow=allocation.narrow)

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _noting(clusters, read(machines, fleet), compare=before is not None)

    code = perform("discover", machines, options, work, decide=partial(_conclude, write=write))
    if not clusters:
        return code
    wrote = _keep(file, clusters[-1], before, write=write)
    if not as_json:
        flags = {"--switch": switch or (), "--user": [user], "--key": [key], "--jump": [jump], "--replay": [replay]}
        words = [*(hosts or ()), *(word for flag in flags for value in flags[flag] if value for word in (flag, value))]
        again = shlex.join(["railbed", "discover", *map(str, words)]) + cluster_option(cluster)
        _print_outcome(file, clusters[-1], before, wrote=wrote, again=again)
    return code


def _allocation(cluster: Path | None, hosts: Sequence[str] | None) -> Allocation | None:
    """Return what the job around us has, if the cluster is `slurm`: its nodes are read, and written to a file here."""
    site = site_of_job(cluster) if cluster else None
    if site is None:
        return None
    if hosts:
        raise UsageError("`-c slurm` reads the nodes of the job, and no others", hint="leave out the machines")
    return read_allocation(site)


def _conclude(tally: Tally, *, write: bool) -> Conclusion:
    """Decide the exit code: every machine must answer, and a file that still differs is a failure."""
    if tally.answered < tally.devices:
        return Conclusion(DEVICE, "not every machine answered")
    return Conclusion(FOUND, "the cluster file differs") if tally.changes and not write else Conclusion()


async def _noting(
    clusters: list[Cluster], records: AsyncGenerator[Record, None], *, compare: bool
) -> AsyncGenerator[Record, None]:
    """Pass the records on, and note the cluster among them; without a file there is nothing to compare with."""
    async with aclosing(records):
        async for record in records:
            if isinstance(record, ClusterBuilt):
                clusters.append(Cluster.model_validate(record.cluster))
            if compare or not isinstance(record, Change):
                yield record


def _login(user: str | None, key: str | None, jump: str | None) -> Login:
    """Return the login of the command line, with an absolute path of the key."""
    named = {"--user": user, "--key": _whole_path(key) if key else None, "--jump": jump}
    for option, value in named.items():
        if value is not None and not _is_text(value):
            raise UsageError(f"{option} {value!r} cannot be used", hint=f"{option} takes one line of text")
    if jump and not HOST.fullmatch(jump):
        raise UsageError(f"--jump {jump!r} is not a jump host", hint="write it as [user@]host[:port]")
    if key and not is_file(expand_home(key)):
        raise UsageError(f"--key {key}: there is no such file", hint="name a private key file")
    return Login(user=user, key=named["--key"], jump=jump)


def _whole_path(path: str) -> str:
    """Return an absolute path, or a path from `~`, since other users have other home folders."""
    absolute = expand_home(path).absolute()
    home = Path("~").expanduser()
    return f"~/{absolute.relative_to(home)}" if absolute.is_relative_to(home) and absolute != home else str(absolute)


def _is_text(value: str) -> bool:
    try:
        TypeAdapter[str](OneLine).validate_python(value)
    except ValidationError:
        return False
    return True


def _machines(hosts: Sequence[str], existing: Cluster | None, login: Login, replay: Path | None) -> Cluster:
    """Return the machines to read: from the arguments, the recording, the file, or this one."""
    if hosts:
        return _bare_cluster(hosts, existing, login)
    recorded = recorded_cluster_file(replay) if replay else None
    if recorded:
        return clusterfile.load(recorded)
    return existing or built_in_local()


def _existing(file: Path, *, typed: bool) -> Cluster | None:
    """Return the cluster of an existing file, which the user has named or which is in this folder."""
    if not typed and file.is_symlink() and file.lstat().st_uid not in (0, os.geteuid()):
        # As in a folder that others can write to: it would decide which file is written.
        raise UsageError(f"{file} is a link of another account, and is not followed", hint="name a file with -c")
    try:
        there = followed(file).exists()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        gone = isinstance(error, FileNotFoundError)
        hint = "does the current folder still exist?" if gone else "give another file with -c"
        raise UsageError(f"{file} cannot be found: {reason}", hint=hint) from error
    return (clusterfile.load(file) if typed else default_cluster()) if there else None


def _with_switches(machines: Cluster, existing: Cluster | None, named: Sequence[str]) -> Cluster:
    """Return the machines with those switches of the file that are named: only the file has a login for them."""
    filed = {**machines.switches, **(existing.switches if existing else {})}
    chosen = {name: switch for name, switch in filed.items() if name in named or switch.host in named}
    return machines.model_copy(update={"switches": chosen})


def _switch_host(text: str) -> str:
    try:
        return TypeAdapter[str](Host).validate_python(text)
    except ValidationError:
        raise UsageError(f"--switch {text!r} is not a host", hint="use its address or host name") from None


def _bare_cluster(hosts: Sequence[str], existing: Cluster | None, login: Login) -> Cluster:
    """Return the machines of the command line, with missing login settings from the file.

    In a new file the login applies to all machines; in an existing file, to the new machines.
    """
    common = existing.login if existing else login
    own = _beyond(login, common)
    nodes: dict[str, Node] = {}
    addresses: dict[Location, str] = {}
    for text in hosts:
        bare = _bare_node(text)
        node = bare.model_copy(update={"login": bare.login.over(own)})
        location = location_of(node.host, node.login.over(common))
        if location in addresses:
            raise UsageError(f"{text} is given twice, first as {addresses[location]}", hint="leave one of them out")
        addresses[location] = text
        nodes[free_name(text, nodes)] = node
    return Cluster(name="machines", nodes=nodes, login=common)


def _beyond(login: Login, common: Login) -> Login:
    """Return the settings of a login that differ from the common one."""
    settings = login.model_dump(exclude_none=True)
    return Login(**{name: value for name, value in settings.items() if value != getattr(common, name)})


def _bare_node(text: str) -> Node:
    match = HOST.fullmatch(text)
    try:
        if match:
            login = Login(user=match["user"], port=int(match["port"]) if match["port"] else None)
            return Node(host=match["host"].strip("[]"), login=login)
    except ValidationError:
        pass
    raise UsageError(f"{text!r} is not a machine", hint="write it as [user@]host[:port]")


def _name_of(file: Path) -> str:
    """Name a new cluster after its file, or after its folder if the file is called cluster.yaml."""
    return name_from(file.stem if file.stem != DEFAULT_CLUSTER.stem else file.resolve().parent.name) or "cluster"


def _keep(file: Path, cluster: Cluster, existing: Cluster | None, *, write: bool) -> bool:
    """Write a new file, or an existing one if requested; return whether it was written."""
    if existing == cluster or (existing and not write):
        return False
    try:
        target = followed(file)
        if existing:
            mode = target.stat().st_mode
            write_atomically(target, _rewritten(target.read_bytes(), cluster, name=str(file)))
            target.chmod(stat.S_IMODE(mode))
        else:
            write_atomically(target, clusterfile.dumps(cluster).encode("utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {os_reason(error)}", hint="give another file with -c") from error
    return True


def _rewritten(data: bytes, cluster: Cluster, *, name: str) -> bytes:
    """Return the changed file, with its original byte order mark and line ends."""
    text = data.decode("utf-8")
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    carriage_returns = 0 < text.count("\n") == text.count("\r\n")
    changed = clusterfile.rewrite(text.replace("\r\n", "\n") if carriage_returns else text, cluster, name=name)
    return (mark + (changed.replace("\n", "\r\n") if carriage_returns else changed)).encode("utf-8")


def _print_outcome(file: Path, cluster: Cluster, existing: Cluster | None, *, wrote: bool, again: str) -> None:
    console = SafeConsole(stderr=True, highlight=False)
    rdma_ports = sum(bool(port.rdma) for _, port in cluster.ports())
    gpus = sum(len(node.gpus) for node in cluster.nodes.values())
    sizes = {"node": len(cluster.nodes), "rail": len(cluster.rails), "RDMA port": rdma_ports, "GPU": gpus}
    counts = ", ".join(plural(count, noun) for noun, count in sizes.items())
    option = cluster_option(file)
    if wrote:
        message = f"written: {counts}; next: railbed check{option}"
    elif existing == cluster:
        message = f"unchanged: {counts}"
    else:
        message = f"not written; `{again} --write` makes these changes"
    console.print(Text(f"{file}: {message}"))
