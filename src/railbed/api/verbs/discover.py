"""`railbed.discover`: machines as a cluster, and as a cluster file."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from railbed import clusterfile
from railbed.api.exits import DEVICE, FOUND
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.site import built_in_local, default_cluster, recorded_cluster_file
from railbed.api.stream import RecordStream
from railbed.api.tally import Conclusion, Tally
from railbed.discover.file import file_exists, write_cluster_file
from railbed.discover.machines import bare_cluster, named_login, switch_host, with_switches
from railbed.discover.run import discover as discover_machines
from railbed.fleet import Fleet
from railbed.model.cabling import name_from
from railbed.model.cluster import Cluster
from railbed.model.events import ClusterBuilt
from railbed.model.record import Change, Record
from railbed.present.wording import DEFAULT_CLUSTER
from railbed.store import Store


def discover(
    hosts: str | Sequence[str] = (),
    cluster: str | os.PathLike[str] | None = None,
    *,
    switches: Sequence[str] = (),
    user: str | None = None,
    key: str | os.PathLike[str] | None = None,
    jump: str | None = None,
    write: bool = False,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Read machines and write their cluster file; of a file that exists, show what changed.

    Yields an event for each machine that was read, the changes of an existing file, and last the event `ClusterBuilt`,
    if a machine answered. At the end a new file is written, and with `write` an existing one, whose comments stay.

    `hosts` are machines as `[user@]host[:port]`; without them those of the file are read again, or else this machine.
    `cluster` is the path of the file, `cluster.yaml` in this folder by default. `user`, `key` (a file) and `jump` (a
    host) are how to log in. `switches` are added; those of the file that are named are read for the cables.
    """
    reach = reach or Reach()
    hosts = [hosts] if isinstance(hosts, str) else hosts
    named = {"user": user, "key": None if key is None else os.fspath(key), "jump": jump}
    discovery = plan_discovery(
        hosts, None if cluster is None else Path(cluster), switches=switches, login=named, write=write, reach=reach
    )
    words = [*hosts, *(word for name, value in named.items() if value for word in (f"--{name}", value))]
    words += [*(word for host in switches for word in ("--switch", host)), *(["--write"] if write else [])]
    words += ["-c", os.fspath(cluster)] if cluster is not None else []
    return discover_stream(discovery, reach=reach, store=store, arguments=["discover", *words])


@dataclass(kw_only=True)
class Discovery:
    """Machines to read, and the file that their cluster is written to."""

    machines: Cluster
    file: Path
    before: Cluster | None
    """The file as it is."""
    existing: Cluster | None
    """The file with changes that the user requested, or what a Slurm job has."""
    switches: Sequence[str]
    narrow: Callable[[Cluster], Cluster] | None
    write: bool
    cluster: Cluster | None = None
    """The cluster of the machines, once they are read."""
    has_written: bool = False

    async def records(self, fleet: Fleet) -> AsyncGenerator[Record, None]:
        """Read the machines and write the file; without a file there is nothing to compare with."""
        reading = discover_machines(
            self.machines,
            fleet,
            name=self.existing.name if self.existing else _name_of(self.file),
            existing=self.existing,
            before=self.before,
            switches=self.switches,
            narrow=self.narrow,
        )
        async with aclosing(reading) as records:
            async for record in records:
                if isinstance(record, ClusterBuilt):
                    self.cluster = Cluster.model_validate(record.cluster)
                if self.before is not None or not isinstance(record, Change):
                    yield record
        if self.cluster is not None:
            self.has_written = write_cluster_file(self.file, self.cluster, self.before, write=self.write)


def plan_discovery(
    hosts: Sequence[str],
    file: Path | None,
    *,
    switches: Sequence[str],
    login: Mapping[str, str | None],
    write: bool,
    reach: Reach,
    allocated: Cluster | None = None,
    narrow: Callable[[Cluster], Cluster] | None = None,
) -> Discovery:
    """Return what to read, and the file for it: the default one, unless one is named.

    `allocated` are the nodes of a Slurm job, which are read in place of those of the file; `narrow` leaves out what
    they have and the job must not use.
    """
    own = named_login(**login)
    before = _existing(file)
    # Without hosts, all machines of the file are read again, and login options apply to all of them.
    existing = before if hosts or before is None else before.model_copy(update={"login": own.over(before.login)})
    existing = allocated or existing
    added = [switch_host(host) for host in switches]
    if hosts:
        machines = bare_cluster(hosts, existing, own)
    else:
        recorded = recorded_cluster_file(reach.replay) if reach.replay else None
        machines = clusterfile.load(recorded) if recorded else existing or built_in_local()
    return Discovery(
        machines=with_switches(machines, existing, added),
        file=file or DEFAULT_CLUSTER,
        before=before,
        existing=existing,
        switches=added,
        narrow=narrow,
        write=write,
    )


def discover_stream(
    discovery: Discovery, *, reach: Reach, store: Store | None = None, arguments: Sequence[str] = ()
) -> RecordStream:
    """Return the verb for machines that are chosen."""
    decide = partial(conclude_discover, write=discovery.write)
    invocation = Invocation(verb="discover", cluster=discovery.machines, work=discovery.records, decide=decide)
    return RecordStream(invocation, reach, store, arguments)


def conclude_discover(tally: Tally, *, write: bool) -> Conclusion:
    """Decide the exit code: every machine must answer, and a file that still differs is a failure."""
    if tally.answered < tally.devices:
        return Conclusion(DEVICE, "not every machine answered")
    return Conclusion(FOUND, "the cluster file differs") if tally.changes and not write else Conclusion()


def _existing(file: Path | None) -> Cluster | None:
    """Return the cluster of the file that is named, or of the one in this folder, if it exists."""
    if not file_exists(file or DEFAULT_CLUSTER, typed=file is not None):
        return None
    return default_cluster() if file is None else clusterfile.load(file)


def _name_of(file: Path) -> str:
    """Name a new cluster after its file, or after its folder if the file is called cluster.yaml."""
    return name_from(file.stem if file.stem != DEFAULT_CLUSTER.stem else file.resolve().parent.name) or "cluster"
