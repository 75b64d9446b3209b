"""railbed discover"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from railbed import clusterfile
from railbed.cli.options import (
    DEFAULT_CLUSTER,
    ClusterOption,
    JsonOption,
    Options,
    RecordOption,
    ReplayOption,
    TimeoutOption,
)
from railbed.cli.perform import FOUND, OK, perform
from railbed.cli.site import built_in_local, recorded_cluster_file
from railbed.discover.run import discover
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.fleet.fleet import DEVICE_SECONDS
from railbed.model.cluster import Cluster, Login, Node
from railbed.model.record import Event, Record
from railbed.store import write_atomically

HOST = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>\d{1,5}))?")

HostsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="HOST", help="Machines as [user@]host[:port]. [default: those of the cluster file, else this one]"
    ),
]
SwitchOption = Annotated[
    list[str] | None, typer.Option("--switch", metavar="HOST", help="A switch to put into the file; may be repeated.")
]
WriteOption = Annotated[bool, typer.Option("--write", help="Make the changes in an existing file; comments stay.")]


def discover_command(
    hosts: HostsArgument = None,
    switch: SwitchOption = None,
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
    file = cluster or DEFAULT_CLUSTER
    existing = clusterfile.load(file) if file.exists() else None
    machines = _machines(hosts or [], existing, replay)
    name = existing.name if existing else _name_of(file)
    options = Options(json=as_json, record=record, replay=replay, timeout=timeout)
    found: list[Cluster] = []

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _noting(found, discover(machines, fleet, name=name, existing=existing, switches=switch or ()))

    code = perform("discover", machines, options, work, all_must_answer=True)
    if not found:
        return code
    wrote = _keep(file, found[-1], existing, write=write)
    if not as_json:
        _tell(file, found[-1], existing, wrote=wrote)
    return OK if wrote and code == FOUND else code


async def _noting(found: list[Cluster], records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    async with aclosing(records):
        async for record in records:
            if isinstance(record, Event) and record.name == "cluster":
                found.append(Cluster.model_validate(record.data))
            yield record


def _machines(hosts: Sequence[str], existing: Cluster | None, replay: Path | None) -> Cluster:
    """Return the machines to read as a cluster of bare nodes."""
    if hosts:
        return _bare_cluster(hosts, existing)
    recorded = recorded_cluster_file(replay) if replay else None
    if recorded:
        return clusterfile.load(recorded)
    return existing or built_in_local()


def _bare_cluster(hosts: Sequence[str], existing: Cluster | None) -> Cluster:
    nodes: dict[str, Node] = {}
    for text in hosts:
        match = HOST.fullmatch(text)
        if not match or int(match["port"] or 1) not in range(1, 65536):
            raise UsageError(f"{text!r} is no machine", hint="write it as [user@]host[:port]")
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", text).strip("-")
        if name in nodes:
            raise UsageError(f"{text} is given twice")
        login = Login(user=match["user"], port=int(match["port"]) if match["port"] else None)
        nodes[name] = Node(host=match["host"].strip("[]"), login=login)
    return Cluster(name="machines", nodes=nodes, login=existing.login if existing else Login())


def _name_of(file: Path) -> str:
    """Name a new cluster after its file, or after its folder where the file is just called cluster.yaml."""
    name = file.stem if file.stem != DEFAULT_CLUSTER.stem else file.resolve().parent.name
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name).strip("-._") or "cluster"


def _keep(file: Path, found: Cluster, existing: Cluster | None, *, write: bool) -> bool:
    """Write a new file, or an existing one where that was asked for; return whether it was written."""
    if existing == found or (existing and not write):
        return False
    text = clusterfile.rewrite(file.read_text(), found, name=str(file)) if existing else clusterfile.dumps(found)
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    return True


def _tell(file: Path, found: Cluster, existing: Cluster | None, *, wrote: bool) -> None:
    console = Console(stderr=True, highlight=False)
    rdma_ports = sum(bool(port.rdma) for _, port in found.ports())
    gpus = sum(len(node.gpus) for node in found.nodes.values())
    counts = f"{len(found.nodes)} nodes, {len(found.rails)} rails, {rdma_ports} RDMA ports, {gpus} GPUs"
    option = "" if file == DEFAULT_CLUSTER else f" -c {file}"
    if wrote:
        console.print(f"{file}: written: {counts}; next: railbed check{option}")
    elif existing == found:
        console.print(f"{file}: as found: {counts}")
    else:
        console.print(f"{file}: not changed; `railbed discover --write` makes these changes in it")
