"""What changed between two clusters, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railbed.clusterfile.values import item_keys, plain
from railbed.clusterfile.write import flow
from railbed.model.cluster import Cluster, Part
from railbed.model.record import Change
from railbed.yamlfile.mistakes import shortened

TEXT_LENGTH = 100


def difference(before: Cluster, after: Cluster) -> list[Change]:
    """Return the changes that lead from one cluster to the other; none if they are equal.

    Ports are matched by interface, switch ports by name, GPUs by position. Items that only moved give one change
    of the list, with the two orders.
    """
    return list(_changes("", before, after))


def _changes(path: str, before: object, after: object) -> Iterator[Change]:
    if before == after:
        return
    match before, after:
        case Part(), Part():
            yield from _entries(path, dict(before), dict(after), "{path}.{key}")
        case Mapping(), Mapping():
            yield from _entries(path, before, after, "{path}.{key}")
        case tuple(), tuple():
            yield from _items(path, before, after)
        case None, _:
            yield Change(subject=path, action="add", after=_short(after))
        case _, None:
            yield Change(subject=path, action="remove", before=_short(before))
        case _:
            yield Change(subject=path, action="set", before=_short(before), after=_short(after))


def _entries(path: str, before: Mapping[str, object], after: Mapping[str, object], form: str) -> Iterator[Change]:
    for key in [*before, *(key for key in after if key not in before)]:
        below = form.format(path=path, key=key) if path else key
        yield from _changes(below, before.get(key), after.get(key))


def _items(path: str, before: tuple[Part | str, ...], after: tuple[Part | str, ...]) -> Iterator[Change]:
    was, now = dict(zip(item_keys(before), before, strict=True)), dict(zip(item_keys(after), after, strict=True))
    yield from _entries(path, was, now, "{path}[{key}]")
    stayed_then, stayed_now = [key for key in was if key in now], [key for key in now if key in was]
    if stayed_then != stayed_now:
        yield Change(subject=path, action="set", before=", ".join(stayed_then), after=", ".join(stayed_now))


def _short(value: object) -> str:
    written = plain(value)
    return shortened(written if isinstance(written, str) else flow(written), TEXT_LENGTH)
