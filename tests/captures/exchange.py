"""Two ports and the network between them: what each records of an exchange, with known losses, marks and clocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from railbed.capture.packets import Recording
from tests.captures.flows import WRAP, Flow, in_order, marked
from tests.captures.truth import START, Packet, recorded

FIRST, SECOND = "10.0.0.1", "10.0.0.2"


@dataclass
class Network:
    """What happens to packets on the way; `lost` and `marked` are positions in what is sent, in order of time."""

    delay: int = 5000
    lost: Collection[int] = ()
    marked: Collection[int] = ()
    wait: Callable[[int], int] = lambda _: 0
    """Further delay of a packet."""
    offset: int = 0
    """How far the second port's clock is ahead."""
    drift: float = 0.0
    rewrite: Callable[[Packet], Packet] = lambda packet: packet

    def clock(self, time: int) -> int:
        """Return a time by the second port's clock."""
        return time + self.offset + round(self.drift * (time - START))

    def ends(self, packets: Iterable[Packet], **known: Any) -> tuple[Recording, Recording]:
        """Return what both ports record; the times of the packets are those at which they were sent."""
        first, second = self.packets_at_ends(packets)
        return port(first, FIRST, "node1", **known), port(second, SECOND, "node2", **known)

    def packets_at_ends(self, packets: Iterable[Packet]) -> tuple[list[Packet], list[Packet]]:
        """Return the packets that both ports record, by their clocks."""
        ends: dict[str, list[Packet]] = {FIRST: [], SECOND: []}
        for position, packet in enumerate(in_order(list(packets))):
            self._record(ends, packet.source, packet, packet.time)
            if position not in self.lost:
                changed = self.rewrite(marked(packet) if position in self.marked else packet)
                arrival = packet.time + self.delay + self.wait(position)
                self._record(ends, packet.destination, changed, arrival)
        return in_order(ends[FIRST]), in_order(ends[SECOND])

    def _record(self, ends: dict[str, list[Packet]], address: str, packet: Packet, time: int) -> None:
        ends[address].append(replace(packet, time=self.clock(time) if address == SECOND else time))


def port(packets: Iterable[Packet], address: str, device: str, **known: Any) -> Recording:
    """Return what a port with an address records, without drops unless they are given."""
    defaults: dict[str, Any] = {"addresses": (address,), "dropped": 0, "device": device, "port": "rail0"}
    defaults |= {"name": f"{device}/rail0", "file": f"{device}-rail0.pcapng"}
    return recorded(packets, **(defaults | known))


@dataclass
class Transfer:
    """Messages of one packet each over a reliable connection that goes back to what was lost."""

    flow: Flow = field(default_factory=Flow)
    delay: int = 5000
    packets: list[Packet] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """Positions of lost packets, for `Network`."""
    refusals: int = 0

    def send(self, count: int, lose: Collection[int] = ()) -> Transfer:
        """Send so many packets; `lose` are the transmissions that get lost, repeats counted."""
        base, time = self.flow.psn, self.flow.time
        following, expected, transmission, refused = 0, 0, 0, False
        answers: list[tuple[int, int | None]] = []
        sent: list[tuple[Packet, bool]] = []
        while expected < count or following < count:
            if answers and answers[0][0] <= time:
                _, back = answers.pop(0)
                following = following if back is None else back
            if following >= count:
                time = answers[0][0] if answers else time + 20 * self.delay
                following = following if answers else expected
                continue
            packet = self._request(base + following, time)
            is_lost = transmission in lose
            sent.append((packet, is_lost))
            if not is_lost and following == expected:
                expected, refused = expected + 1, False
                answers.append((time + 2 * self.delay, None))
                sent.append((self._answer(base + following, time + self.delay, 0x1F), False))
            elif not is_lost and following > expected and not refused:
                refused = True
                self.refusals += 1
                answers.append((time + 2 * self.delay, expected))
                sent.append((self._answer(base + expected, time + self.delay, 0x60), False))
            following, transmission, time = following + 1, transmission + 1, time + self.flow.gap
        self._finish(sent, base + count, time)
        return self

    def _request(self, psn: int, time: int) -> Packet:
        self.flow.psn, self.flow.time = psn % WRAP, time
        return self.flow.send(1000)[0]

    def _answer(self, psn: int, time: int, syndrome: int) -> Packet:
        return self.flow.back(0x11, psn=psn % WRAP, time=time, syndrome=syndrome)

    def _finish(self, sent: Sequence[tuple[Packet, bool]], psn: int, time: int) -> None:
        self.flow.psn, self.flow.time = psn % WRAP, time + 4 * self.delay
        ordered = sorted(sent, key=lambda pair: pair[0].time)
        begin = len(self.packets)
        self.packets += [packet for packet, _ in ordered]
        self.lost |= {begin + place for place, (_, is_lost) in enumerate(ordered) if is_lost}

    @property
    def requests(self) -> int:
        """How many requests were sent, repeats included."""
        return sum(packet.source == self.flow.source for packet in self.packets)

    def ends(self, **known: Any) -> tuple[Recording, Recording]:
        """Return what both ports record."""
        return Network(delay=self.delay, lost=self.lost, **known).ends(self.packets)
