"""`railbed.discover`: machines as a cluster, and as a cluster file; the first contact with machines that are bare."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from railbed import clusterfile
from railbed.api.exits import DEVICE, FOUND
from railbed.api.reach import Confirm, Reach
from railbed.api.running import Invocation
from railbed.api.site import built_in_local, default_cluster, recorded_cluster_file
from railbed.api.stream import RecordStream
from railbed.api.tally import Conclusion, Tally
from railbed.discover.account import ContactWishes
from railbed.discover.file import file_exists, write_cluster_file
from railbed.discover.machines import bare_cluster, named_login, switch_host, with_switches
from railbed.discover.run import discover as discover_machines
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cabling import name_from
from railbed.model.cluster import Cluster
from railbed.model.events import ClusterBuilt
from railbed.model.record import Change, Record
from railbed.present.wording import DEFAULT_CLUSTER
from railbed.store import Store
from railbed.transport.secret import secret_from

FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def discover(
    hosts: str | Sequence[str] = (),
    cluster: str | os.PathLike[str] | None = None,
    *,
    switches: Sequence[str] = (),
    user: str | None = None,
    key: str | os.PathLike[str] | None = None,
    jump: str | None = None,
    write: bool = False,
    set_up: bool = False,
    undo: bool = False,
    sudo: bool | None = None,
    password: str | None = None,
    fingerprints: Sequence[str] = (),
    confirm: Confirm | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Read machines and write their cluster file; of a file that exists, show what changed.

    Yields an event for each machine that was read, the changes of an existing file, and last the event `ClusterBuilt`,
    if a machine answered. At the end a new file is written, and with `write` an existing one, whose comments stay.

    `hosts` are machines as `[user@]host[:port]`; without them those of the file are read again, or else this machine.
    `cluster` is the path of the file, `cluster.yaml` in this folder by default. `user`, `key` (a file) and `jump` (a
    host) are how to log in. `switches` are added; those of the file that are named are read for the cables.

    `set_up` first makes machines admit a key, which is created if there is none: events show host keys that are not
    known, `confirm` is asked whether they are right, and machines that admit no key yet get it with the password.
    `fingerprints` (`SHA256:…`) are host keys that need no question; without `confirm`, no others are accepted. `sudo`
    also lets the accounts use sudo without a password; None asks `confirm`. `password` is its place, `env:NAME` or
    `keyring:SERVICE/USER`; by default the terminal is asked. `undo` only removes what a set-up installed.
    """
    reach = reach or Reach()
    hosts = [hosts] if isinstance(hosts, str) else hosts
    named = {"user": user, "key": None if key is None else os.fspath(key), "jump": jump}
    contact = plan_contact(set_up, undo=undo, sudo=sudo, password=password, fingerprints=fingerprints, confirm=confirm)
    discovery = plan_discovery(
        hosts,
        None if cluster is None else Path(cluster),
        switches=switches,
        login=named,
        write=write,
        contact=contact,
        reach=reach,
    )
    words = [*hosts, *(word for name, value in named.items() if value for word in (f"--{name}", value))]
    words += [*(word for host in switches for word in ("--switch", host)), *(["--write"] if write else [])]
    words += _words_of(contact, password) if contact else []
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
    contact: ContactWishes | None = None
    """What is wanted of the first contact; None if there is to be none."""
    cluster: Cluster | None = None
    """The cluster of the machines, once they are read."""
    has_written: bool = False
    has_sudo: bool = True
    """Sudo without a password was not wanted, or is set up everywhere."""

    async def records(self, fleet: Fleet) -> AsyncGenerator[Record, None]:
        """Set the machines up if that is wanted, read them and write the file."""
        if self.contact:
            from railbed.discover.set_up import FirstContact  # asyncssh is slow to load

            nodes = [target for target in fleet.targets if target.kind == "node"]
            contact = FirstContact(nodes, self.contact, timeout=fleet.timeout)
            async with aclosing(contact.records()) as steps:
                async for step in steps:
                    yield step
            self.has_sudo = not contact.without_sudo
            if self.contact.undo or not contact.ready:
                return
            fleet = fleet.only({*contact.ready, *self.machines.switches})
        async with aclosing(self._read(fleet)) as records:
            async for record in records:
                yield record

    async def _read(self, fleet: Fleet) -> AsyncGenerator[Record, None]:
        """Read the machines and write the file; without a file there is nothing to compare with."""
        reading = discover_machines(
            self.machines,
            fleet,
            name=self.existing.name if self.existing else _name_of(self.file),
            existing=self.existing,
            before=self.before,
            switches=self.switches,
            narrow=self.narrow,
            bare=self.contact is not None and self.before is None,
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
    contact: ContactWishes | None = None,
    allocated: Cluster | None = None,
    narrow: Callable[[Cluster], Cluster] | None = None,
) -> Discovery:
    """Return what to read, and the file for it: the default one, unless one is named.

    `allocated` are the nodes of a Slurm job, which are read in place of those of the file; `narrow` leaves out what
    they have and the job must not use.
    """
    own = named_login(**login, new_key=contact is not None and not contact.undo)
    before = _existing(file)
    if contact:
        _refuse_without_machines(hosts, before, reach)
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
        contact=_with_own_password(contact, existing) if contact else None,
    )


def plan_contact(
    set_up: bool,
    *,
    undo: bool = False,
    sudo: bool | None = None,
    password: str | None = None,
    fingerprints: Sequence[str] = (),
    confirm: Confirm | None = None,
) -> ContactWishes | None:
    """Return what is wanted of the first contact; raise UsageError for options that need one."""
    named = {"--undo": undo, "--sudo": sudo is not None, "--password": password, "--fingerprint": fingerprints}
    if not set_up:
        if alone := next((option for option, value in named.items() if value), ""):
            raise UsageError(f"{alone} goes only with --set-up", hint="add --set-up, or leave it out")
        return None
    for fingerprint in fingerprints:
        if not FINGERPRINT.fullmatch(fingerprint):
            raise UsageError(f"--fingerprint {fingerprint!r} is not one", hint="`ssh-keygen -lf` prints it: SHA256:…")

    async def answer(question: str) -> bool:
        reply = confirm(question) if confirm else False
        return await reply if isinstance(reply, Awaitable) else reply

    return ContactWishes(
        password=secret_from(password) if password else None,
        fingerprints=frozenset(fingerprints),
        confirm=answer if confirm else None,
        sudo=sudo,
        undo=undo,
    )


def _words_of(contact: ContactWishes, password: str | None) -> list[str]:
    """Return the options of a command line that wants the same of the first contact."""
    words = ["--set-up", *(["--undo"] if contact.undo else []), *(["--password", password] if password else [])]
    words += [] if contact.sudo is None else ["--sudo" if contact.sudo else "--no-sudo"]
    return words + [word for key in sorted(contact.fingerprints) for word in ("--fingerprint", key)]


def _with_own_password(contact: ContactWishes, file: Cluster | None) -> ContactWishes:
    """Return the wishes with the place of the password that the cluster file has, if no other is named."""
    return replace(contact, password=contact.password or (file.login.password if file else None))


def _refuse_without_machines(hosts: Sequence[str], file: Cluster | None, reach: Reach) -> None:
    if reach.replay or reach.record:
        option = "--replay" if reach.replay else "--record"
        raise UsageError(f"{option} and --set-up do not go together", hint="set the machines up first")
    if not hosts and file is None:
        raise UsageError("--set-up needs machines", hint="name them: railbed discover --set-up ubuntu@10.0.0.11 …")


def discover_stream(
    discovery: Discovery, *, reach: Reach, store: Store | None = None, arguments: Sequence[str] = ()
) -> RecordStream:
    """Return the verb for machines that are chosen."""

    def decide(tally: Tally) -> Conclusion:
        conclusion = conclude_discover(tally, write=discovery.write)
        return conclusion if discovery.has_sudo else Conclusion(DEVICE, "sudo is not set up everywhere")

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
