"""First contact: host keys that a person confirms, one password, a key for all machines; and the way back.

Machines go through it side by side, and whatever is wrong with one of them is its own sentence. What a machine has is
not done again, so a second call continues. Nothing is remembered here: a key that was installed carries its mark.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from itertools import chain

from railbed.discover.account import REMOVED, ContactWishes, install_key, remove_keys
from railbed.discover.contact import ask_password, noting, place_of, plain, run_on, side_by_side
from railbed.discover.known_hosts import add_host_keys, are_hashed
from railbed.discover.sudo import SudoRights, forbid_sudo
from railbed.errors import DeviceError, HostKeyUnknown, LoginRefused, NotAdmitted, Unreachable, UsageError
from railbed.model import events
from railbed.model.events.general import progress
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.record import Event
from railbed.model.text import exists, plural
from railbed.transport.base import Target
from railbed.transport.secret import resolve
from railbed.transport.ssh.connection import JUMP, SshConnector
from railbed.transport.ssh.contact import HostKey, PublicKey, bind_address, create_key, jump_hosts, key_path


class FirstContact:
    """Sets machines up, or takes that back."""

    def __init__(self, targets: Sequence[Target], wishes: ContactWishes, *, timeout: float = DEVICE_SECONDS) -> None:
        self.ready: set[str] = set()
        """Machines that admit the key, or need none."""
        self.failures: dict[str, DeviceError] = {}
        """Why others do not, by machine."""
        self.without_sudo: dict[str, DeviceError] = {}
        """Why machines admit the key and yet need a password for sudo, which was not wanted."""
        self._passwords: dict[str, str] = {}
        """What machines have accepted."""
        self._targets = targets
        self._wishes = wishes
        self._timeout = timeout
        self._ssh = SshConnector(timeout)

    async def records(self) -> AsyncGenerator[Event, None]:
        """Do the work and yield what happens; last, each machine that failed."""
        targets = [target for target in self._targets if target.access == "ssh"]
        async with self._ssh:
            hops = _hops(targets)
            stages = [*hops, targets]
            for stage in reversed(stages) if self._wishes.undo else stages:
                work = self._take_back(stage) if self._wishes.undo else self._set_up(stage)
                async with aclosing(work) as records:
                    async for record in records:
                        yield record
            if not self._wishes.undo:
                rights = SudoRights(self._ssh, self._wishes, self._passwords, timeout=self._timeout)
                admitting = [target for target in targets if target.name not in self.failures]
                async with aclosing(rights.give(admitting)) as records:
                    async for record in records:
                        yield record
                self.without_sudo = rights.problems
        self.ready |= {target.name for target in self._targets if target.name not in self.failures}
        for target in self._targets:
            if error := self.without_sudo.get(target.name):
                yield events.Notice(subject=target.name, message=_sentence(target, error))
        # A jump host that cannot be set up is why the machines behind it failed.
        for target in [*self._targets, *(chain(*hops) if self._wishes.undo else ())]:
            if error := self.failures.get(target.name):
                yield events.DeviceRead(subject=target.host, message=error.message, ok=False)
                yield events.Notice(subject=target.name, message=_sentence(target, error))

    async def _set_up(self, stage: Sequence[Target]) -> AsyncGenerator[Event, None]:
        reachable = [target for target in stage if not self._is_cut_off(target)]
        yield progress(f"logging in to {plural(len(reachable), 'machine')}")
        await self._log_in(reachable)
        shown = await self._host_keys([target for target in reachable if self._has_failed(target, HostKeyUnknown)])
        unconfirmed = [key for key in shown.values() if key.fingerprint not in self._wishes.fingerprints]
        for key in unconfirmed:
            yield events.HostKeyShown(
                subject=key.host, message=key.fingerprint, algorithm=key.algorithm, known_as=key.name
            )
        refused = set() if await self._are_right(unconfirmed) else {key.device for key in unconfirmed}
        await _add_host_keys([key for key in shown.values() if key.device not in refused])
        await self._log_in([target for target in reachable if target.name in shown.keys() - refused])
        locked = [target for target in reachable if self._has_failed(target, NotAdmitted)]
        async with aclosing(self._install(locked)) as records:
            async for record in records:
                yield record

    async def _log_in(self, targets: Iterable[Target]) -> None:
        """Note which machines admit a key."""

        async def try_keys(target: Target) -> None:
            self.failures.pop(target.name, None)
            with noting(self.failures, target):
                if target.login.key and not exists(key_path(target.login)):
                    async with self._ssh.by_password(target, None):
                        return
                await self._ssh.log_in(target)

        async for _ in side_by_side(targets, try_keys):
            pass

    async def _host_keys(self, strangers: Sequence[Target]) -> dict[str, HostKey]:
        """Return the host keys that machines show; one that cannot be read is why its machine failed."""
        keys: dict[str, HostKey] = {}

        async def read(target: Target) -> None:
            with noting(self.failures, target):
                keys[target.name] = await self._ssh.host_key(target)

        async for _ in side_by_side(strangers, read):
            pass
        return {target.name: keys[target.name] for target in strangers if target.name in keys}

    async def _are_right(self, keys: Sequence[HostKey]) -> bool:
        """Have a person confirm host keys; without that, their machines failed."""
        confirm = self._wishes.confirm
        if not keys or (confirm and await confirm(_question(keys))):
            return True
        for key in keys:
            self.failures[key.device] = _not_confirmed(key, was_asked=confirm is not None)
        return False

    async def _install(self, locked: Sequence[Target]) -> AsyncGenerator[Event, None]:
        """Install a key on machines that admit none of ours, with the password."""
        keys: dict[str, PublicKey] = {}
        for target in locked:
            with noting(self.failures, target):
                offered = await self._ssh.keys(target) if _has_key(target) else []
                if not offered:
                    path = key_path(target.login)
                    offered = [create_key(path)]
                    yield events.Notice(
                        message=f"created the key {path}; it has no passphrase, and `ssh-keygen -p -f {path}` sets one"
                    )
                keys[target.name] = offered[0]
        targets = [target for target in locked if target.name in keys]
        password = self._password(targets)
        if password is None:
            return

        async def install(target: Target) -> Event | None:
            done = False
            with noting(self.failures, target):
                await self._install_on(target, keys[target.name].public, password)
                done = True
            message = f"{place_of(target)}: the key {keys[target.name].source} is installed"
            return events.DeviceChanged(subject=target.name, outcome="applied", message=message) if done else None

        async for event in side_by_side(targets, install):
            if event:
                yield event

    async def _install_on(self, target: Target, public: str, password: str) -> None:
        async with self._ssh.by_password(target, password) as transport:
            await run_on(target, transport, install_key(public))
            try:
                await self._ssh.log_in(target)
            except NotAdmitted as error:
                is_removed = await run_on(target, transport, remove_keys([public])) == REMOVED
                now = "so it is taken out again" if is_removed else "where it was before"
                raise LoginRefused(
                    f"{place_of(target)} refuses the key although it is in the authorized_keys of {error.user}, {now}",
                    hint="can others write to the home folder or to .ssh (StrictModes), or does its sshd read another "
                    "AuthorizedKeysFile?",
                ) from error
        self.failures.pop(target.name, None)
        self._passwords[target.name] = password

    def _password(self, locked: Sequence[Target]) -> str | None:
        """Return the password; without it, that is why the machines that need it failed."""
        if not locked:
            return None
        users = dict.fromkeys(error.user for error in map(self._not_admitted, locked) if error)
        return ask_password(self._wishes, locked, users, self.failures, need="admits none of your keys yet")

    async def _take_back(self, stage: Sequence[Target]) -> AsyncGenerator[Event, None]:
        yield progress(f"taking the set-up back on {plural(len(stage), 'machine')}")

        async def take_back(target: Target) -> Event | None:
            result = ""
            with noting(self.failures, target):
                result = await self._take_back_on(target)
            message = f"{place_of(target)}: {result}"
            return events.DeviceChanged(subject=target.name, outcome="undone", message=message) if result else None

        async for event in side_by_side(stage, take_back):
            if event:
                yield event

    async def _take_back_on(self, target: Target) -> str:
        command = remove_keys(key.public for key in await self._ssh.keys(target))
        try:
            async with self._ssh.to_shell(plain(target)) as transport:
                freed = await run_on(target, transport, forbid_sudo(), may_fail=True)
                if freed == "failed":
                    raise LoginRefused(f"the file for sudo cannot be removed from {place_of(target)}")
                printed = await run_on(target, transport, command)
                if freed == REMOVED:
                    return "sudo asks for a password again, and the key of the set-up is removed"
        except NotAdmitted:
            if self._wishes.password is None:
                return "it admits none of your keys, so none of a set-up is in effect"
            async with self._ssh.by_password(target, resolve(self._wishes.password)) as transport:
                printed = await run_on(target, transport, command)
        return "the key of the set-up is removed" if printed == REMOVED else "there was no key of a set-up"

    def _is_cut_off(self, target: Target) -> bool:
        """Whether a jump host on the way cannot be used; then that is why the machine failed."""
        for hop in jump_hosts(target.host, target.login):
            if error := self.failures.get(_hop_name(hop)):
                self.failures[target.name] = type(error)(f"jump host: {error.message}", hint=error.hint)
                return True
        return False

    def _has_failed(self, target: Target, kind: type[DeviceError]) -> bool:
        return type(self.failures.get(target.name)) is kind

    def _not_admitted(self, target: Target) -> NotAdmitted | None:
        error = self.failures.get(target.name)
        return error if isinstance(error, NotAdmitted) else None


async def _add_host_keys(keys: Sequence[HostKey]) -> None:
    for file in dict.fromkeys(key.file for key in keys):
        lines = [(key.name, key.public) for key in keys if key.file == file]
        add_host_keys(file, lines, hashed=await are_hashed(file, lines[0][0]))


def _hops(targets: Sequence[Target]) -> list[list[Target]]:
    """Return the hosts on the way to machines, those that are nearest first."""
    stages: dict[int, dict[str, Target]] = {}
    for target in targets:
        before = None
        for depth, hop in enumerate(jump_hosts(target.host, target.login)):
            match = JUMP.fullmatch(hop)
            if match is None:
                raise UsageError(f"{hop!r} is not a jump host", hint="write it as [user@]host[:port]")
            user = match["user"] or (target.login.user if target.login.jump else None)
            changes = {"user": user, "port": int(match["port"]) if match["port"] else None, "jump": before}
            login = target.login.model_copy(update={**changes, "password": None, "sudo": None})
            hops = stages.setdefault(depth, {})
            hops.setdefault(hop, Target(name=_hop_name(hop), host=match["host"].strip("[]"), login=login))
            before = hop
    return [[*stages[depth].values()] for depth in sorted(stages)]


def _hop_name(hop: str) -> str:
    return f"jump host {hop}"


def _has_key(target: Target) -> bool:
    return not target.login.key or exists(key_path(target.login))


def _question(keys: Sequence[HostKey]) -> str:
    return "is this the host key?" if len(keys) == 1 else f"are these {len(keys)} the host keys?"


def _not_confirmed(key: HostKey, *, was_asked: bool) -> HostKeyUnknown:
    hint = "compare it with `ssh-keygen -lf` of its /etc/ssh/ssh_host_*_key.pub at its console"
    if not was_asked:
        hint += f"; `--fingerprint {key.fingerprint}` confirms it"
    return HostKeyUnknown(
        f"the host key of {key.host} is not confirmed, so nothing was sent to it: {key.algorithm} {key.fingerprint}",
        hint=hint,
    )


def _sentence(target: Target, error: DeviceError) -> str:
    """Return why a machine failed, in a sentence; a site may admit connections from certain addresses only."""
    message = error.message if target.host in error.message else f"{place_of(target)}: {error.message}"
    hints = [error.hint] if error.hint else []
    if isinstance(error, Unreachable | NotAdmitted):
        address = bind_address(target.host, target.login)
        hints.append(
            f"it was tried from {address}, the `BindAddress` of your SSH configuration"
            if address
            else "a site that admits one source address only needs it as `BindAddress` in ~/.ssh/config"
        )
    return f"{message} ({'; '.join(hints)})" if hints else message
