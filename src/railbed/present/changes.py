"""Changes for people: devices with the same changes share one block, and ports with the same lines one entry.

The lines of a change are shown exactly as they are run or entered. So devices are alike only if their lines are equal,
and ports only if their lines are equal once the name of the one port is replaced with that of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from railbed.model.record import Change
from railbed.present.groups import NameMask, group_by
from railbed.present.wording import name_range, natural_order


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """A change that some ports of a device have in common."""

    ports: str
    """Their names; empty for a change of the device itself."""
    change: Change
    """That of the first port; its values before and after name all."""
    likewise: str = ""
    """For which other ports the lines are repeated."""


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices and their common changes."""

    names: tuple[str, ...]
    count: int
    """How many changes each of them has."""
    changes: list[ChangeGroup]


def device_groups(changes: Iterable[Change], mask: NameMask) -> list[DeviceGroup]:
    """Return the changes by device, in order of first occurrence."""
    by_device = group_by(changes, key=_device)
    together = group_by(by_device, key=lambda members: tuple(_key(change, mask) for change in members))
    return [_device_group(devices, mask) for devices in together]


def _device_group(devices: Sequence[Sequence[Change]], mask: NameMask) -> DeviceGroup:
    names = tuple(_device(changes[0]) for changes in devices)
    alike = list(zip(*devices, strict=True))
    together = group_by(alike, key=lambda same: _port_key(same[0], mask))
    return DeviceGroup(names, len(alike), [_change_group(changes, mask) for changes in together])


def _change_group(alike: Sequence[Sequence[Change]], mask: NameMask) -> ChangeGroup:
    ordered = sorted(alike, key=lambda same: natural_order(same[0].subject))
    changes, first = [same[0] for same in ordered], ordered[0][0]
    every = [change for same in ordered for change in same]
    shown = replace(
        first,
        before=mask.common([(change.before, change.subject) for change in every]),
        after=mask.common([(change.after, change.subject) for change in every]),
        left_out=mask.common([(change.left_out, change.subject) for change in every]),
    )
    lines = [(*change.apply, *change.undo) for change in changes]
    likewise = mask.likewise([change.subject for change in changes], lines)
    return ChangeGroup(name_range(map(_port, changes)), shown, likewise)


def _key(change: Change, mask: NameMask) -> tuple[object, ...]:
    general = _without_node(change, mask)
    return _port(change), *_texts(general), general.apply, general.undo


def _port_key(change: Change, mask: NameMask) -> tuple[object, ...]:
    """Return a key that is equal for ports with the same change; changes of the device itself stay apart."""
    if not _port(change):
        return (id(change),)
    texts = [mask.without_port(text, change.subject) for text in _texts(change)]
    lines = [tuple(mask.without_port(line, change.subject) for line in part) for part in (change.apply, change.undo)]
    return *texts, *lines


def _without_node(change: Change, mask: NameMask) -> Change:
    """Return a change whose texts hold for the same port of any node; its lines stay as they are."""
    return replace(
        change,
        before=mask.without_node(change.before, change.subject),
        after=mask.without_node(change.after, change.subject),
        left_out=mask.without_node(change.left_out, change.subject),
    )


def _texts(change: Change) -> tuple[str, ...]:
    return change.check, change.action, str(change.interrupts), change.before, change.after, change.left_out


def _device(change: Change) -> str:
    return change.subject.partition("/")[0]


def _port(change: Change) -> str:
    return change.subject.partition("/")[2]
