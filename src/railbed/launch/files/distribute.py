"""Brings a large parcel to all nodes: from this machine to one of them, and from there from node to node.

Every node has the first pieces of the parcel, and gets the others in order. A node that is still receiving passes on
what it has. So nodes form chains; at the head of a chain is a node that has everything, or one that gets it from this
machine, which happens only if no node can get it from another. See `relay` for what happens on a node.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Iterator

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.files.client import RELAY, FileClient, NodeRefuses, NodeSilent, file_client
from railbed.launch.files.participant import Participant, best_source, rail_of
from railbed.launch.files.ship import Parcel
from railbed.launch.messages import Message, encode
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.events.general import progress
from railbed.model.record import Record
from railbed.model.text import duration, size

CONTROL = ""
"""The source of a node that gets pieces from this machine."""


BEAT_SECONDS = 10.0
SILENCE_SECONDS = 15.0
"""How long a relay may be silent: it reports every second."""
RETRY_SECONDS = 1.0
ATTEMPTS = 3
"""How often the relay of a node is started; what the node has by then is not sent again."""
REPORT_SECONDS = 1.0
ANSWERS = ("serving", "from", "have", "broken", "stranger", "stored", "done")


class Distribution:
    """A parcel on its way to nodes."""

    def __init__(self, fleet: Fleet, cluster: Cluster, parcel: Parcel, nodes: Iterable[str]) -> None:
        assert parcel.pieces is not None
        self._fleet, self._cluster, self._parcel, self._pieces = fleet, cluster, parcel, parcel.pieces
        self._nodes = {name: Participant.of(cluster, name) for name in nodes}
        self._records: asyncio.Queue[Record | None] = asyncio.Queue()
        self._numbers = itertools.count()
        self._reported = 0.0
        self.failed: dict[str, DeviceError] = {}
        """Nodes that did not get it, and why."""

    async def run(self) -> AsyncGenerator[Record, None]:
        """Yield progress until every node has the parcel or has failed."""
        tasks = [asyncio.create_task(self._attend(node)) for node in self._nodes.values()]
        ending = asyncio.create_task(self._note_end(tasks))
        try:
            while (record := await self._records.get()) is not None:
                yield record
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in (*tasks, ending):
                task.cancel()
            await asyncio.gather(*tasks, ending, return_exceptions=True)

    async def _note_end(self, tasks: list[asyncio.Task[None]]) -> None:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        self._records.put_nowait(None)

    async def _attend(self, node: Participant) -> None:
        """Run the relay of a node until the parcel is everywhere; start it again if it breaks."""
        for attempt in range(1, ATTEMPTS + 1):
            error = await self._try_relay(node)
            self._disconnect(node)
            if error is None or node.is_complete:  # it may be lost while it serves others, who find another source
                break
            if attempt == ATTEMPTS or (isinstance(error, NodeRefuses) and not isinstance(error, NodeSilent)):
                node.is_over = node.has_answered = True
                self.failed[node.name] = error
                break
            message = f"{error.message}; the copy will be continued"
            self._records.put_nowait(events.Notice(subject=node.name, message=message))
            self._assign()
            await asyncio.sleep(RETRY_SECONDS)
        self._assign()

    def _disconnect(self, node: Participant) -> None:
        """Note that a relay has ended: whoever waits for its answer needs another source; connected nodes notice."""
        node.disconnect()
        for other in self._nodes.values():
            if other.source == node.name and other.admission:
                other.source = other.admission = None

    async def _try_relay(self, node: Participant) -> DeviceError | None:
        try:
            await self._relay(node)
        except DeviceError as error:
            return error
        return None

    async def _relay(self, node: Participant) -> None:
        request = {
            "do": "relay",
            "workdir": self._cluster.training.workdir,
            "parcel": self._parcel.as_message(),
            "pieces": self._pieces.as_message(),
            "addresses": list(node.addresses.values()),
        }
        interpreter = self._cluster.interpreter_of(node.name)
        async with file_client(self._fleet, node.name, interpreter, request, modules=RELAY) as client:
            answer = await client.answer("ready", "waiting")
            if answer["kind"] == "waiting":
                node.has_answered = True
                self._assign()
                answer = await client.answer("ready")
            client.patience = SILENCE_SECONDS
            node.connect(client, int(answer["have"]))
            writing = asyncio.create_task(_write(client, node.outbox))
            self._assign()
            try:
                while (answer := await client.answer(*ANSWERS))["kind"] != "done":
                    self._receive(node, answer)
                    for task in (writing, node.feeding):
                        if task and task.done():
                            task.result()  # it failed if the node reads nothing any more
            finally:
                started = [task for task in (writing, node.feeding) if task]
                for task in started:
                    task.cancel()
                await asyncio.gather(*started, return_exceptions=True)
                node.feeding = None

    def _receive(self, node: Participant, answer: Message) -> None:
        match answer:
            case {"kind": "serving", "number": int(number), "places": list(places)}:
                self._let_fetch(node, number, dict(_ports(places)))
            case {"kind": "from", "address": str(address)}:
                node.address = address
            case {"kind": "have", "have": int(have)}:
                node.have = have
                self._report()
            case {"kind": "broken", "why": str(why), "have": int(have)}:
                node.have = have
                self._replace_source(node, why)
            case {"kind": "stranger", "address": str(address)}:
                message = f"a stranger at {address} tried to get files from {node.name}, and got nothing"
                self._records.put_nowait(events.Intrusion(subject=node.name, message=message, address=address))
            case {"kind": "stored", "new": is_new}:
                node.have, node.is_complete, node.is_over = self._pieces.count, True, True
                if is_new:
                    self._records.put_nowait(self._report_copy(node))
                self._assign()

    def _assign(self) -> None:
        """Find sources for nodes that have none; once every node is done, let all relays end."""
        for node in sorted(self._nodes.values(), key=lambda node: -node.have):
            if not node.lacks_source:
                continue
            if source := best_source(node, self._nodes):
                node.await_admission(source, next(self._numbers), secrets.token_hex(32))
            elif all(other.has_answered for other in self._nodes.values()):
                node.source = CONTROL
                node.feeding = asyncio.create_task(self._feed(node))
        if all(node.is_over for node in self._nodes.values()):
            for node in self._nodes.values():
                node.send({"do": "end"})

    def _let_fetch(self, source: Participant, number: int, ports: dict[str, int]) -> None:
        """Give a node its key and the places where the source listens."""
        for node in self._nodes.values():
            if node.source != source.name or node.admission is None or node.admission.number != number:
                continue
            key, node.admission = node.admission.key, None
            if places := node.places(source, ports):
                node.send({"do": "fetch", "key": key, "places": places})
            else:
                self._replace_source(node, "it listens on no rail")

    def _replace_source(self, node: Participant, why: str) -> None:
        if node.source:
            node.unusable.add(node.source)
            message = f"{node.source} stopped passing files on to {node.name}: {why}"
            self._records.put_nowait(events.Notice(subject=node.name, message=message))
        node.source = None
        self._assign()

    async def _feed(self, node: Participant) -> None:
        """Send pieces from this machine."""
        assert node.client is not None
        for index in range(node.have, self._pieces.count):
            data = await asyncio.to_thread(self._parcel.read_piece, index)
            # In one call: the commands that another task writes must not come between a piece and its header.
            await node.client.write(encode({"do": "piece", "index": index, "size": len(data)}) + data)

    def _report(self) -> None:
        """Report the progress of all nodes together, about once a second."""
        now = time.monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        there = sum(self._pieces.start(node.have) for node in self._nodes.values())
        total = self._pieces.total * len(self._nodes)
        behind = min(self._nodes.values(), key=lambda node: node.have)
        detail = f"{behind.name} has {size(self._pieces.start(behind.have))} of {size(self._pieces.total)}"
        message = f"copying {self._parcel.title} to the nodes, in MB"
        self._records.put_nowait(progress(message, detail=detail, done=there // 10**6, total=total // 10**6))

    def _report_copy(self, node: Participant) -> events.FilesCopied:
        before, after = self._pieces.start(node.had), self._pieces.total
        seconds = time.monotonic() - node.since
        source = self._nodes.get(node.source or CONTROL)
        rail = rail_of(source, node.address) if source else ""
        origin = f"{source.name}{f' over {rail}' if rail else ''}" if source else "this machine"
        earlier = f", after {size(before)} in an earlier copy" if before else ""
        return events.FilesCopied(
            subject=node.name,
            message=f"{size(after - before)} of {self._parcel.title} from {origin} in {duration(seconds)}{earlier}",
            source=source.name if source else None,
            rail=rail or None,
            bytes=after - before,
            continued=before,
            seconds=seconds,
        )


def _ports(places: Iterable[object]) -> Iterator[tuple[str, int]]:
    for place in places:
        match place:
            case [str(address), int(port)]:
                yield address, port


async def _write(client: FileClient, outbox: asyncio.Queue[Message]) -> None:
    while True:
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                message = await outbox.get()
        except TimeoutError:
            message = {"do": "beat"}
        await client.write(encode(message))
