"""A fix: a change to one device, as data, so that people see exactly what is applied and undone.

A rule builds a fix from the facts it judged. The remedy of its finding is the text of the fix, and code that changes
devices (an experiment, `configure`) runs its steps through `fleet.change`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """A shell command, run as root."""

    command: str
    part: str = ""
    """The change that it belongs to: `rule subject`, for every rule that the change satisfies, separated by commas."""
    only_if: str = ""
    """A test that fails if there is nothing to do: an undo also runs if the step it undoes never ran."""
    verify: str = ""
    """A test that fails if the step had no effect: some tools exit with 0 even if the kernel refused the values."""
    step: Literal["run"] = "run"

    def __str__(self) -> str:
        return self.command

    @property
    def script(self) -> str:
        """The command with its condition and its verification, for a shell."""
        script = self.command
        if self.verify:
            refused = "echo 'it had no effect: other values were read back' >&2; false"
            script = f"{{ {script}; }} && {{ {self.verify} || {{ {refused}; }}; }}"
        return f"if {self.only_if}; then {script}; fi" if self.only_if else script


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep:
    """The contents of a file; None removes it. It needs no undo: the file is copied first."""

    path: str
    content: str | None
    part: str = ""
    """As for RunStep."""
    mode: str = ""
    """Permissions in octal; empty for those that the file has, or 644 for a new one."""
    owner: str = ""
    """`user:group`, as names or numbers; empty for the owner that the file has, or root."""
    own_folder: bool = False
    """Its folder is created for it, and removed with it."""
    step: Literal["file"] = "file"

    def __str__(self) -> str:
        if self.content is None:
            return f"rm {shlex.quote(self.path)}"
        lines = self.content.splitlines()
        if len(lines) > 3:
            return f"write {len(lines)} lines to {shlex.quote(self.path)}"
        return f"printf '%s\\n' {shlex.join(lines)} > {shlex.quote(self.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigStep:
    """Lines of a switch's configuration, indented as `show running-config` shows them; `no …` removes a line.

    It needs no undo: the configuration is read first. `configure` merges the lines of all fixes of a switch and
    orders them, so that nothing is used before it exists or removed while it is used.
    """

    lines: tuple[str, ...]
    step: Literal["config"] = "config"

    def __str__(self) -> str:
        return " ; ".join(("configure terminal", *(line.strip() for line in self.lines)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStep:
    """Restores one slot of a switch's configuration: lines of a section that exclude, or belong to, each other.

    The other lines of the section stay as they are: somebody else may have entered them since.
    """

    section: tuple[str, ...]
    """The lines that lead to it; none for the top."""
    slot: str
    """What its lines have in common (`parsing.nexus.slots`)."""
    before: tuple[str, ...]
    """Its lines before the change, indented as in `show running-config`."""
    after: tuple[str, ...] | None = None
    """Its lines after the change; None if the change was cut short."""
    step: Literal["slot"] = "slot"

    def __str__(self) -> str:
        return " ; ".join((*self.section, *(map(str.strip, self.before) if self.before else (f"no {self.slot}",))))


Step = RunStep | FileStep | ConfigStep | SlotStep


ALL_PORTS = "all ports"
SHOWN_PORTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """The ports of a switch whose traffic a change stops for a moment."""

    losing: tuple[str, ...] = ()
    """Ports that lose packets; ALL_PORTS for every port of the switch, also those not in the cluster file."""
    flapping: tuple[str, ...] = ()
    """Ports whose link goes down and comes up again."""

    def __bool__(self) -> bool:
        """Whether anything is interrupted."""
        return bool(self.losing or self.flapping)

    def __or__(self, other: Interruption) -> Interruption:
        """Return what two changes interrupt together."""
        losing = tuple(dict.fromkeys((*self.losing, *other.losing)))
        flapping = tuple(dict.fromkeys((*self.flapping, *other.flapping)))
        return Interruption(losing=(ALL_PORTS,) if ALL_PORTS in losing else losing, flapping=flapping)

    def describe(self, device: str) -> str:
        """Return it for people; empty if nothing is interrupted."""
        parts = []
        if ALL_PORTS in self.losing:
            parts.append(f"all ports of {device} lose packets for a moment, also those not in the cluster file")
        elif self.losing:
            verb = "loses" if len(self.losing) == 1 else "lose"
            parts.append(f"{_first_ports(self.losing)} of {device} {verb} packets for a moment")
        if self.flapping:
            noun = "link goes down and comes" if len(self.flapping) == 1 else "links go down and come"
            parts.append(f"{_first_ports(self.flapping)} of {device}: the {noun} up again")
        return "; ".join(parts)


NOTHING = Interruption()


def _first_ports(ports: tuple[str, ...]) -> str:
    more = len(ports) - SHOWN_PORTS
    return ", ".join(ports) if more <= 0 else f"{', '.join(ports[:SHOWN_PORTS])} and {more} more ports"


class Persistence(StrEnum):
    """Whether a fix survives a reboot of the device."""

    KEPT = "kept"
    """It survives: files, names, package states."""
    BOOT = "boot"
    """The kernel or the card loses it: it must be applied again at every boot."""
    NETWORK = "network"
    """The kernel loses it; it belongs in the network configuration (netplan, ifupdown, systemd-networkd)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change of one device that repairs a finding."""

    device: str
    apply: tuple[Step, ...]
    """Steps, in order; the first failure ends the fix."""
    undo: tuple[Step, ...]
    """Steps that restore the observed state, in order; all are tried, whichever steps of `apply` ran. Files are
    restored from copies, switches from what their configuration was: neither is listed."""
    persistence: Persistence
    interrupts: bool = False
    """Traffic of the device may stop for a moment."""
    interruption: Interruption = NOTHING
    """Of a switch: which ports that concerns."""
    seconds: int = 0
    """How much longer than usual it may take: a download, for example."""
    after: tuple[str, ...] = ()
    """Rules whose fixes on the same device come first."""
    alternative: str = ""
    """What to do instead if the cluster file is wrong rather than the device: a person decides."""
    condition: str = ""
    """A precondition that railbed cannot verify: a person decides."""
    note: str = ""
    """What remains to be done, or is worth knowing."""
    at_boot_only: bool = False
    """The device is right now: `configure` does not run the steps, it only stores what they do for the next boot."""

    @property
    def inverse(self) -> Fix:
        """The fix that undoes it."""
        return replace(self, apply=self.undo, undo=self.apply, after=(), alternative="", condition="", note="")

    @property
    def needs_decision(self) -> bool:
        """Whether a person has to decide before it is applied."""
        return bool(self.alternative or self.condition)

    @property
    def remedy(self) -> str:
        """The fix as a text for people."""
        commands = "; ".join(map(str, self.apply))
        if self.after:
            commands = f"first the fix of {' and '.join(self.after)}, then {commands}"
        if self.alternative:
            commands = f"{self.alternative}; else {commands}"
        if self.condition:
            commands = f"{commands}, {self.condition}"
        if self.interruption:
            commands = f"{commands} ({self.interruption.describe(self.device)})"
        if self.at_boot_only:
            commands = f"`railbed configure` stores it; what has to happen at every boot: {commands}"
        return f"{commands}; {self.note}" if self.note else commands


def as_steps(*commands: str) -> tuple[Step, ...]:
    """Return commands as steps."""
    return tuple(RunStep(command=command) for command in commands)


def is_one_line(line: str) -> bool:
    """Whether a switch takes a text for one line of its configuration: `;` would begin another command."""
    return bool(line.strip()) and line.isprintable() and ";" not in line


def configure_lines(
    device: str,
    *lines: str,
    interruption: Interruption = NOTHING,
    alternative: str = "",
    condition: str = "",
    note: str = "",
) -> Fix:
    """Return the fix that enters lines into a switch's configuration and saves it, so that it survives a reload."""
    return Fix(
        device=device,
        apply=(ConfigStep(lines=lines),),
        undo=(),
        persistence=Persistence.KEPT,
        interrupts=bool(interruption),
        interruption=interruption,
        alternative=alternative,
        condition=condition,
        note=note,
    )


def write_value(value: object, path: str) -> str:
    """Return the command that writes a value to a file of the kernel (sysfs, configfs, debugfs)."""
    return f"echo {shlex.quote(str(value))} > {shlex.quote(path)}"


def set_mtu(device: str, mtus: Iterable[tuple[str, int, int]], *, condition: str = "") -> Fix:
    """Return the fix that sets the MTU of interfaces, each given as name, current MTU and wanted MTU."""
    links = list(mtus)
    return Fix(
        device=device,
        apply=as_steps(*(mtu_command(netdev, after) for netdev, _, after in links)),
        undo=as_steps(*(mtu_command(netdev, before) for netdev, before, _ in reversed(links))),
        persistence=Persistence.NETWORK,
        interrupts=True,
        condition=condition,
    )


def mtu_command(netdev: str, mtu: int) -> str:
    """Return the command that sets the MTU of an interface."""
    return f"ip link set dev {shlex.quote(netdev)} mtu {mtu}"
