"""QoS of NVIDIA (Mellanox) interfaces: trust, DSCP map, PFC, buffers, traffic classes (`mlnx_qos -i`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

NOT_SUPPORTED = re.compile(r".* not supported on your system!?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """One traffic class."""

    tc: int | None
    """None if the tool omits it, as it does without rate limits."""
    tsa: str | None = None
    """`strict`, `ets` or `vendor`."""
    bandwidth: int | None = None
    """Share of an `ets` class, in percent."""
    ratelimit: str | None = None
    priorities: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """QoS of one interface."""

    trust: str | None = None
    """`dscp` or `pcp`: which field of a packet chooses its priority."""
    dcbx_mode: str | None = None
    """`OS controlled` or `Firmware controlled`."""
    dscp_prio: dict[str, int]
    """Priority by DSCP; empty if PCP is trusted."""
    pfc: tuple[int, ...] | None = None
    """Priorities with flow control on."""
    prio_buffer: tuple[int, ...] | None = None
    buffer_sizes: tuple[int, ...] | None = None
    cable_len: int | None = None
    """Metres of cable that the buffers are sized for."""
    classes: tuple[TrafficClass, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MlnxQos(TextFacts):
    """QoS by interface; the saved output of a single interface is under the empty name."""

    interfaces: dict[str, Qos]


@dataclass(slots=True)
class _Reader:
    """Reads one output line by line."""

    values: dict[str, str] = field(default_factory=dict)
    dscp_prio: dict[str, int] = field(default_factory=dict)
    classes: list[TrafficClass] = field(default_factory=list)
    priorities: dict[int, list[int]] = field(default_factory=dict)
    """By the index of their class."""
    is_other: bool = False

    def take(self, line: str) -> None:
        for pattern, reader in _LINES:
            match = pattern.fullmatch(line.strip())
            if match:
                reader(self, match)
                return
        raise ParseError("not an output of mlnx_qos", line=line)

    def value(self, match: re.Match[str]) -> None:
        self.values[match[1].lower()] = match[2].strip()

    def dscp(self, match: re.Match[str]) -> None:
        for number in match[2].split(","):
            if number.strip():
                self.dscp_prio[str(integer(number))] = integer(match[1])

    def traffic_class(self, match: re.Match[str]) -> None:
        number = integer(match[1]) if match[1] else None
        bandwidth = integer(match[4]) if match[4] else None
        self.classes.append(TrafficClass(tc=number, ratelimit=match[2] or None, tsa=match[3], bandwidth=bandwidth))

    def class_priority(self, match: re.Match[str]) -> None:
        if not self.classes and match[1].split() == list("01234567"):
            return  # the heading of the PFC table, as some versions write it
        if not self.classes:
            raise ParseError("a priority outside of a traffic class", line=match[0])
        self.priorities.setdefault(len(self.classes) - 1, []).extend(integer(word) for word in match[1].split())

    def ignore(self, match: re.Match[str]) -> None:
        """Ignore headings, warnings, and additions of other versions of the tool."""
        self.is_other = self.is_other or not NOT_SUPPORTED.fullmatch(match[0])

    @property
    def is_supported(self) -> bool:
        """Whether a line was read that an interface without QoS does not have."""
        return bool(self.values or self.dscp_prio or self.classes or self.is_other)


_LINES: list[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], None]]] = [
    (re.compile(r"prio:\s*(\d)\s+dscp:([\d, ]*)", re.ASCII), _Reader.dscp),
    (re.compile(r"tc: (\d+) (?:ratelimit: ([^,]+), )?tsa: ?(\w+)?(?:, bw: (\d+)%)?", re.ASCII), _Reader.traffic_class),
    (re.compile(r"()()(strict|vendor|unknown|ets)(?:, bw: (\d+)%)?", re.ASCII), _Reader.traffic_class),
    (re.compile(r"(?:priority|up):\s++([\d ]+)", re.ASCII), _Reader.class_priority),
    (re.compile(r"(enabled|buffer|priority):?\s++([\d ]+)", re.ASCII), _Reader.value),
    (
        re.compile(r"(DCBX mode|Priority trust (?:state|mode)|Receive buffer size \(bytes\)|Cable len):(.*)", re.ASCII),
        _Reader.value,
    ),
    (re.compile(rf"(?:skprio|tos): .*|{NOT_SUPPORTED.pattern}|\*+ WARNING.*", re.ASCII), _Reader.ignore),
    (re.compile(r"[A-Za-z][\w ()-]*:.*", re.ASCII), _Reader.ignore),
]


def parse(text: str) -> MlnxQos:
    """Read the sections of all interfaces, or the output for one; without QoS it is empty or all `not supported`."""
    lines = Lines(text)
    read = ((name, _qos(body)) for name, body in lines.sections() if body.text.strip())
    interfaces = {name: qos for name, qos in read if qos}
    lines.require_known("not an output of mlnx_qos")
    return MlnxQos(interfaces=interfaces, not_understood=lines.not_understood)


def _qos(lines: Lines) -> Qos | None:
    """Return the QoS of an interface; a VLAN, an IPoIB interface or a virtual function has none."""
    reader = _Reader()
    for line in lines:
        with lines.reading(line):
            reader.take(line)
    values = reader.values
    trust = values.get("priority trust state") or values.get("priority trust mode")
    if trust is None and "enabled" not in values:
        if reader.is_supported:
            lines.refuse("neither a trust state nor PFC")
        return None
    enabled = _numbers(values.get("enabled"))
    if enabled is not None and len(enabled) != 8:
        raise ParseError("expected PFC for 8 priorities", line=values["enabled"])
    return Qos(
        trust=trust,
        dcbx_mode=values.get("dcbx mode"),
        dscp_prio=reader.dscp_prio,
        pfc=tuple(priority for priority, on in enumerate(enabled) if on) if enabled is not None else None,
        prio_buffer=_numbers(values.get("buffer")),
        buffer_sizes=_numbers(values.get("receive buffer size (bytes)", "").partition("max_buffer_size")[0] or None),
        cable_len=integer(values["cable len"]) if values.get("cable len") else None,
        classes=tuple(
            replace(row, priorities=tuple(reader.priorities.get(index, ()))) for index, row in enumerate(reader.classes)
        ),
    )


def _numbers(row: str | None) -> tuple[int, ...] | None:
    return None if row is None else tuple(_each_number(row))


def _each_number(row: str) -> Iterator[int]:
    return (integer(word) for word in row.replace(",", " ").split())


COMMAND = """
for path in /sys/class/net/*; do
  case "$(readlink "$path/device/driver")" in
    */mlx[45]*) echo "==> ${path##*/} <=="; mlnx_qos -i "${path##*/}" ;;
  esac
done
exit 0
"""

PROBE = Probe(
    name="mlnx_qos",
    title="QoS of NVIDIA interfaces: trust, DSCP map, PFC, buffers",
    command=COMMAND,
    parse=parse,
    facts=MlnxQos,
    tool="mlnx_qos",
    package="mlnx-tools",
    needs_root=True,
    timeout=15.0,
)
