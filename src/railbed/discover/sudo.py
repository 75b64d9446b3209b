"""Lets accounts use sudo without a password, by a file of sudo's that is marked; and takes that back by the mark."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from railbed.discover.account import REMOVED, SECONDS, ContactWishes
from railbed.discover.contact import Problems, ask_password, noting, place_of, plain, run_on, side_by_side
from railbed.errors import LoginRefused
from railbed.fleet import Fleet
from railbed.fleet.change import commit
from railbed.model import events
from railbed.model.fix import FileStep, Fix, Persistence, RunStep
from railbed.model.record import Event
from railbed.model.text import plural
from railbed.transport.base import Command, Target
from railbed.transport.ssh.connection import SshConnector

SUDOERS = "/etc/sudoers.d/railbed-"
"""Followed by the number of the account: sudo ignores files whose names have a dot, as accounts may."""
SUDOERS_MARK = "# Written by `railbed discover --set-up`, which removes it with --undo."
USES_SUDO = "sudo -k -n sh -c : >/dev/null 2>&1"
"""Succeeds if no password is needed, not even one that was typed a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account on a machine."""

    number: int
    name: str
    sudo: str
    """How it becomes root: `root`, it is; `free`, without a password; `asks`, with one; `missing`, there is no sudo."""


def read_account() -> Command:
    """Return the command whose output `parse_account` understands."""
    script = f"""id -u; id -un
if [ "$(id -u)" = 0 ]; then echo root
elif ! command -v sudo >/dev/null 2>&1; then echo missing
elif {USES_SUDO}; then echo free
else echo asks; fi"""
    return Command(key="account", script=script, timeout=SECONDS, recorded=False)


def parse_account(printed: str) -> Account | None:
    """Return the account, or None if the text is not about one."""
    match = re.fullmatch(r"(\d+)\n(\S+)\n(root|free|asks|missing)", printed.strip())
    return Account(number=int(match[1]), name=match[2], sudo=match[3]) if match else None


def allow_sudo(device: str, account: Account) -> Fix:
    """Return the fix that lets an account use sudo without a password."""
    # By its number, since names of accounts may have characters that mean something there.
    rule = f"#{account.number} ALL=(ALL:ALL) NOPASSWD: ALL"
    content = f"{SUDOERS_MARK}\n# {account.name}:\n{rule}\n"
    return Fix(
        device=device,
        apply=(
            RunStep(command=f"printf '%s\\n' {shlex.quote(rule)} | visudo -c -q -f -"),
            FileStep(path=f"{SUDOERS}{account.number}", content=content, mode="440", owner="root:root"),
        ),
        undo=(),
        persistence=Persistence.KEPT,
    )


def forbid_sudo() -> Command:
    """Return the command that removes the file again: in one go, since it takes away the right to do more."""
    script = f"""file={SUDOERS}${{SUDO_UID:-0}}
if [ ! -e "$file" ] || ! grep -qxF {shlex.quote(SUDOERS_MARK)} "$file"; then echo absent
elif rm -f "$file"; then echo {REMOVED}
else echo failed; fi"""
    return Command(key="forbid", script=script, timeout=SECONDS, as_root=True, recorded=False)


class SudoRights:
    """Gives the accounts of machines the right to use sudo without a password."""

    def __init__(
        self, ssh: SshConnector, wishes: ContactWishes, passwords: Mapping[str, str], *, timeout: float
    ) -> None:
        self.problems: Problems = {}
        """Why accounts still need a password, although that was not wanted, by machine."""
        self._ssh = ssh
        self._wishes = wishes
        self._timeout = timeout
        self._passwords = dict(passwords)
        """What machines have accepted."""

    async def give(self, targets: Sequence[Target]) -> AsyncGenerator[Event, None]:
        """Give it where it is missing, if that is wanted, and yield what was changed."""
        if self._wishes.sudo is False or (self._wishes.sudo is None and self._wishes.confirm is None):
            return
        accounts = await self._accounts(targets)
        asking = [target for target in targets if (account := accounts.get(target.name)) and account.sudo == "asks"]
        if self._wishes.sudo is None and not await self._is_wanted([accounts[target.name] for target in asking]):
            return
        for target in targets:
            if (account := accounts.get(target.name)) and account.sudo == "missing" and self._wishes.sudo:
                self.problems[target.name] = LoginRefused(
                    f"there is no sudo on {place_of(target)}",
                    hint=f"install it, or log in as root: {account.name} is not",
                )
        if strangers := [target for target in asking if target.name not in self._passwords]:
            users = dict.fromkeys(accounts[target.name].name for target in strangers)
            need = "needs a password for sudo"
            password = ask_password(self._wishes, strangers, users, self.problems, need=need)
            self._passwords |= {target.name: password for target in strangers if password is not None}

        async def allow(target: Target) -> Event | None:
            with noting(self.problems, target):
                await self._give_on(target, accounts[target.name])
            message = f"{place_of(target)}: {accounts[target.name].name} uses sudo without a password"
            done = target.name not in self.problems
            return events.DeviceChanged(subject=target.name, outcome="applied", message=message) if done else None

        async for event in side_by_side([target for target in asking if target.name in self._passwords], allow):
            if event:
                yield event

    async def _is_wanted(self, accounts: Sequence[Account]) -> bool:
        if not accounts or self._wishes.confirm is None:
            return False
        names = " and ".join(dict.fromkeys(account.name for account in accounts))
        machines = plural(len(accounts), "machine")
        return await self._wishes.confirm(f"let {names} use sudo without a password on {machines}? configure needs it")

    async def _accounts(self, targets: Sequence[Target]) -> dict[str, Account]:
        accounts: dict[str, Account] = {}

        async def read(target: Target) -> None:
            with noting(self.problems, target):
                async with self._ssh.to_shell(plain(target)) as transport:
                    if account := parse_account(await run_on(target, transport, read_account())):
                        accounts[target.name] = account

        async for _ in side_by_side(targets, read):
            pass
        return accounts

    async def _give_on(self, target: Target, account: Account) -> None:
        connect = partial(self._ssh.to_shell, sudo_password=self._passwords[target.name])
        async with Fleet([plain(target)], connect, timeout=self._timeout) as fleet:
            output = await fleet.ask(target.name, Command(key="sudo", script=":", timeout=60.0, as_root=True))
            if output.exit != 0:
                raise LoginRefused(
                    f"{account.name} cannot use sudo on {place_of(target)}: {output.trouble}",
                    hint="log in as root, or have the account added to the group sudo or wheel",
                )

            async def verify() -> str:
                tried = await fleet.ask(target.name, Command(key="verify", script=USES_SUDO, timeout=30.0))
                return "" if tried.exit == 0 else "sudo still asks for a password: does /etc/sudoers include sudoers.d?"

            # The undo needs no run: the file has a mark, and its name follows from the account.
            await commit(fleet, allow_sudo(target.name, account), save=lambda _: None, verify=verify)
