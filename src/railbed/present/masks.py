"""Names that differ between nodes, or between the ports of a device, in texts that are otherwise the same.

Masked texts are only compared. What people read has names: `common` puts those of all nodes and ports in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from railbed.model.cabling import cables
from railbed.model.cluster import Cluster
from railbed.present.names import name_range

NODE, ADDRESS, PORT, DEVICE, SWITCH_PORT = "NODE", "ADDRESS", "PORT", "DEVICE", "SWITCH/PORT"
"""Placeholders for the names and addresses of each node and each port, while texts are compared."""
_LETTER_AND_DIGIT = re.compile(r"(?=.*[A-Za-z]).*[0-9]", re.DOTALL)
"""Names of ports that cannot be taken for values, unlike `on` or `1500`, which are legal names of interfaces."""

_BEFORE = r"(?<![\w.:-])"
_AFTER_NODE = r"(?![\w-]|[.:]\w)"
"""The end of a name: node1 is not node10, node1-a or node1.example.com."""
_AFTER_PORT = r"(?![\w-]|[.:]\w|/\d)"
"""The same, and Ethernet1/1 is not Ethernet1/1/2; a prefix such as /24 follows only addresses."""

Words = tuple[tuple[str, str], ...]
"""Names, and the placeholder for each."""


class NameMask:
    """Replaces the names of a node or a port with placeholders."""

    def __init__(self, cluster: Cluster | None) -> None:
        self._nodes: dict[str, Words] = {}
        self._devices: dict[str, str] = {}
        self._cables: dict[str, str] = {}
        if cluster is None:
            return
        for name, node in cluster.nodes.items():
            addresses = [str(port.address) for port in node.ports] + [node.host]
            self._nodes[name] = ((name, NODE), *((address, ADDRESS) for address in addresses if address != name))
        self._devices = {f"{name}/{port.netdev}": port.rdma for name, port in cluster.ports() if port.rdma}
        self._cables = {
            f"{cable.node}/{cable.port.netdev}": f"{cable.switch}/{cable.switch_port.name}" for cable in cables(cluster)
        }

    def without_node(self, text: str, subject: str) -> str:
        """Mask the name and the addresses of the subject's node, and the switch port that the subject is cabled to."""
        node = subject.partition("/")[0]
        return _mask(_mask(text, self._cable(subject)), self._nodes.get(node, ()), end=_AFTER_NODE)

    def without_port(self, text: str, subject: str) -> str:
        """Mask the name of the subject's port, its RDMA device, and the switch port that it is cabled to."""
        return _mask(_mask(text, self._cable(subject)), self._port(subject))

    def likewise(self, subjects: Sequence[str], commands: Iterable[Sequence[str]]) -> str:
        """Return which other ports need the commands of the first one; empty if those do not depend on the port.

        The RDMA device of a port is added if the commands contain it, since it does not follow from the port's name.
        """
        ports = list(zip(subjects, commands, strict=True))
        if len(ports) < 2 or all(
            self.without_port(line, subject) == line for subject, lines in ports for line in lines
        ):
            return ""
        names = [subject.partition("/")[2] for subject in subjects[1:]]
        devices = [self._device_in(subject, lines) for subject, lines in ports[1:]]
        if not any(devices):
            return f"likewise on {name_range(names)}"
        pairs = (f"{name} ({device})" if device else name for name, device in zip(names, devices, strict=True))
        return f"likewise on {', '.join(pairs)}"

    def likewise_on_nodes(self, subjects: Sequence[str], text: str) -> str:
        """Return which other nodes need the remedy of the first one; empty if it does not depend on the node."""
        nodes = [subject.partition("/")[0] for subject in subjects]
        if len(nodes) < 2 or self.without_node(text, subjects[0]) == text:
            return ""
        addresses = tuple(word for word in self._nodes.get(nodes[0], ()) if word[1] == ADDRESS)
        own = ", each with its own address" if _mask(text, addresses, end=_AFTER_NODE) != text else ""
        return f"likewise on {name_range(nodes[1:])}{own}"

    def common(self, texts: Sequence[tuple[str, str]]) -> str:
        """Return texts that differ only in the names of their subjects as one text, with the names of all.

        Each text is given with its subject.
        """
        if len({text for text, _ in texts}) == 1:
            return texts[0][0]
        parts = [self._split(text, subject) for text, subject in texts]
        if any(own[::2] != parts[0][::2] for own in parts):
            return texts[0][0]
        return "".join(
            _join_names([own[at] for own in parts]) if at % 2 else literal for at, literal in enumerate(parts[0])
        )

    def _split(self, text: str, subject: str) -> list[str]:
        """Return the parts of a text: every second one is a name of its subject, or of the switch port there."""
        node, port = subject.partition("/")[::2]
        place = ((subject, ""),) if port and node in self._nodes else ()
        of_port = _words_in(text, (*place, *self._cable(subject), *self._port(subject)))
        of_node = _words_in(text, self._nodes.get(node, ()))
        return _splitter(of_port, of_node).split(text) if of_port or of_node else [text]

    def _port(self, subject: str) -> Words:
        port, device = subject.partition("/")[2], self._devices.get(subject, "")
        names = ((port, PORT), (device, DEVICE))
        return tuple((name, placeholder) for name, placeholder in names if _LETTER_AND_DIGIT.match(name))

    def _cable(self, subject: str) -> Words:
        cable = self._cables.get(subject)
        return ((cable, SWITCH_PORT),) if cable else ()

    def _device_in(self, subject: str, lines: Iterable[str]) -> str:
        """Return the RDMA device of a port if the lines contain it."""
        device = self._devices.get(subject)
        return device if device and any(_mask(line, ((device, DEVICE),)) != line for line in lines) else ""


def _mask(text: str, words: Words, *, end: str = _AFTER_PORT) -> str:
    """Replace whole names with their placeholders."""
    words = _words_in(text, words)
    if not words:
        return text
    placeholders: Mapping[str, str] = dict(words)
    return _pattern(words, end).sub(lambda match: placeholders[match.group()], text)


def _words_in(text: str, words: Words) -> Words:
    """Return the names that a text may contain: most contain none, and a pattern is expensive to build."""
    return tuple(word for word in words if word[0] in text)


@lru_cache(maxsize=4096)
def _pattern(words: Words, end: str) -> re.Pattern[str]:
    return re.compile(rf"{_BEFORE}(?:{_any_of(words)}){end}")


@lru_cache(maxsize=4096)
def _splitter(of_port: Words, of_node: Words) -> re.Pattern[str]:
    by_end = ((of_port, _AFTER_PORT), (of_node, _AFTER_NODE))
    patterns = (rf"(?:{_any_of(words)}){end}" for words, end in by_end if words)
    return re.compile(rf"{_BEFORE}({'|'.join(patterns) or '(?!)'})")


def _any_of(words: Iterable[tuple[str, str]]) -> str:
    return "|".join(re.escape(name) for name, _ in words)


def _join_names(names: Sequence[str]) -> str:
    """Return all names: as a range if they are consecutive, and `rail0 of node1–node3` for the same port of nodes."""
    places = [name.partition("/") for name in dict.fromkeys(names)]
    if len(places) > 1 and len({port for _, slash, port in places if slash}) == 1 and all(place[1] for place in places):
        return f"{places[0][2]} of {name_range(node for node, _, _ in places)}"
    return name_range(names)
