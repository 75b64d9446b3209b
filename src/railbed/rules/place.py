"""What nodes, switches, ports and rails have in common for a rule: the policy, and the series of a meter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from railbed.model.cluster import Cluster, Policy
from railbed.model.reading import Known, Unknown
from railbed.rules.rule import Unread, Unsampled

if TYPE_CHECKING:  # numpy: check does without
    from railbed.rules.signal import Signal

F = TypeVar("F")
S = TypeVar("S")
V = TypeVar("V")


class Ground(Protocol):
    """What a place needs of the site that it is part of."""

    @property
    def cluster(self) -> Cluster: ...


class PlaceProtocol(Protocol):
    @property
    def site(self) -> Ground: ...
    @property
    def subject(self) -> str: ...
    def try_signal(self, meter: str, part: str = "") -> Signal | None: ...


class JudgedPlace:
    """A device or a port."""

    __slots__ = ()

    @property
    def policy(self: PlaceProtocol) -> Policy:
        """The lossless policy of the cluster."""
        return self.site.cluster.policy

    @property
    def lossless(self: PlaceProtocol) -> str:
        """The number of the lossless priority, which is also that of its queue."""
        return str(self.site.cluster.policy.priority)

    def signal(self: PlaceProtocol, meter: str, part: str = "") -> Signal:
        """Return a series, or end this judgement: it was not measured."""
        signal = self.try_signal(meter, part)
        if signal is None:
            raise Unsampled(f"{meter} {part}".strip(), self.subject)
        return signal


def require_known(reading: Known[F] | Unknown, device: str) -> Known[F]:
    """Return facts that were read, or end this judgement."""
    if isinstance(reading, Unknown):
        raise Unread(reading, device)
    return reading


def value_if_read(place: S, value_of: Callable[[S], V]) -> V | None:
    """Return a value of a place; None if the facts that it is computed from are missing."""
    try:
        return value_of(place)
    except Unread:
        return None
