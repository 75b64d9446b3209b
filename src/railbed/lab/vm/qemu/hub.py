"""A switch for the rails of a lab with more than two nodes: `python -m railbed.lab.vm.qemu.hub TAG NODES RAILS`.

Each rail has a socket here, and one at every node; a datagram is a frame. It learns where addresses are, queues a few
frames for a slow node, and drops the rest, as switches do. It runs in the lab's folder.
"""

from __future__ import annotations

import selectors
import socket
import sys
from collections import deque
from pathlib import Path

LONGEST_FRAME = 65536
SHORTEST_FRAME = 14
MOST_ADDRESSES = 1024
MOST_WAITING = 512
AT_A_TIME = 64
BUFFER_BYTES = 1 << 20
MULTICAST = 1


class HubPort:
    """Sends frames to a node. The kernel queues ten of them, and signals when it has room again."""

    def __init__(self, selector: selectors.BaseSelector, name: str) -> None:
        self.name = name
        self._selector = selector
        self._waiting: deque[bytes] = deque()
        self._socket: socket.socket | None = None

    def send(self, frame: memoryview) -> None:
        """Send or queue a frame; drop it if the queue is full or the node is off."""
        if self._waiting:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(bytes(frame))
            return
        try:
            self._connect().send(frame)
        except BlockingIOError:
            self._waiting.append(bytes(frame))
            self._selector.register(self._connect(), selectors.EVENT_WRITE, self)
        except OSError:
            self.close()

    def ready(self) -> None:
        """Send the queued frames."""
        try:
            while self._waiting:
                self._connect().send(self._waiting[0])
                self._waiting.popleft()
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._selector.unregister(self._connect())

    def close(self) -> None:
        """Disconnect from a node that is off; the next frame tries again."""
        if self._socket:
            if self._waiting:
                self._selector.unregister(self._socket)
            self._socket.close()
        self._socket = None
        self._waiting.clear()

    def _connect(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
            self._socket.connect(self.name)
        return self._socket


class HubRail:
    """The switch of one rail."""

    def __init__(self, selector: selectors.BaseSelector, name: str, nodes: int) -> None:
        self.learnt: dict[bytes, HubPort] = {}
        self._ports = {
            port: HubPort(selector, port) for port in (f"node{number}-{name}" for number in range(1, nodes + 1))
        }
        self._frame = bytearray(LONGEST_FRAME)
        self._selector = selector
        own = Path(f"hub-{name}")
        own.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(own))
        selector.register(self._socket, selectors.EVENT_READ, self)

    def ready(self) -> None:
        """Forward received frames, a limited number at a time so that the other rails get their turn."""
        for _ in range(AT_A_TIME):
            try:
                size, source = self._socket.recvfrom_into(self._frame)
            except BlockingIOError:
                return
            if size >= SHORTEST_FRAME and (port := self._ports.get(source)):
                frame = memoryview(self._frame)[:size]
                for target in self._targets(frame, port):
                    target.send(frame)

    def close(self) -> None:
        """Close all sockets."""
        for port in self._ports.values():
            port.close()
        self._selector.unregister(self._socket)
        self._socket.close()

    def _targets(self, frame: memoryview, source: HubPort) -> list[HubPort]:
        target, sender = bytes(frame[:6]), bytes(frame[6:12])
        if not sender[0] & MULTICAST and self.learnt.get(sender) is not source:
            if len(self.learnt) >= MOST_ADDRESSES:
                self.learnt.clear()
            self.learnt[sender] = source
        known = self.learnt.get(target)
        ports = self._ports.values() if known is None else [known]
        return [port for port in ports if port is not source]


def main(nodes: int, rails: int) -> None:
    """Forward frames until killed."""
    with selectors.DefaultSelector() as selector:
        for rail in range(rails):
            HubRail(selector, f"rail{rail}", nodes)
        while True:
            turn(selector)


def turn(selector: selectors.BaseSelector, seconds: float | None = None) -> bool:
    """Handle pending events; return False if none came in time."""
    events = selector.select(seconds)
    for key, _ in events:
        key.data.ready()
    return bool(events)


if __name__ == "__main__":
    main(int(sys.argv[2]), int(sys.argv[3]))
