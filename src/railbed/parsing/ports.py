"""Output about all network interfaces and RDMA ports of a node: the shell loops, and what they print.

ethtool has its own messages for unsupported queries. A tree below /sys/class/infiniband is printed as
`device/path:value` lines, the way `grep -r ''` prints files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from railbed.errors import ParseError
from railbed.parsing.lines import Lines

NOT_SUPPORTED = re.compile(
    r"^(Cannot (get|read|dump) .*|netlink (error|warning): .*|No data available|no (stats|feature info) available"
    r"|Operation not supported)$"
)
"""What ethtool prints if a driver does not support a query: a fact about the driver, not a parse error."""

TITLE = re.compile(r"^(Settings|Pause parameters|Features|Offload parameters|FEC parameters) for (?P<name>\S+):\s*$")


def for_each_interface(command: str) -> str:
    """Return a shell loop that runs a command for every interface but loopback; `$name` is the interface."""
    return (
        "for path in /sys/class/net/*; do name=${path##*/}; "
        'if [ "$name" = lo ] || [ ! -e "$path/ifindex" ]; then continue; fi; '
        f'echo "==> $name <=="; {command} 2>&1; done; true'
    )


def answers(lines: Lines) -> Iterator[tuple[str, list[str]]]:
    """Yield each interface with the lines that ethtool printed for it, without empty lines and unsupported queries.

    The output of an interface may be empty; an empty text is an error. Saved without our header, most output of ethtool
    names the interface in its title, so that several may follow each other.
    """
    if not lines.text.strip():
        raise ParseError("nothing was printed")
    for name, part in lines.sections():
        body = [line for line in part if not NOT_SUPPORTED.match(line.strip())]
        if name:
            yield name, body
        else:
            yield from _by_title(body)


def _by_title(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    titles = [(number, match["name"]) for number, line in enumerate(lines) if (match := TITLE.match(line.strip()))]
    if not titles:
        yield "", lines
        return
    titles[0] = (0, titles[0][1])
    for (start, name), (end, _) in pairwise([*titles, (len(lines), "")]):
        yield name, lines[start:end]


def without_title(body: list[str], title: str | tuple[str, ...], lines: Lines) -> list[str]:
    """Return the lines after the title, indented relative to it; an interface without output has no title."""
    at = next((number for number, line in enumerate(body) if line.strip().startswith(title)), len(body))
    for line in body[:at]:
        lines.unknown(line)
    margin = _indent(body[at]) if at < len(body) else 0
    return [line[min(margin, _indent(line)) :] for line in body[at + 1 :]]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def key_and_value(line: str) -> tuple[str, str]:
    """Split `key: value`."""
    key, colon, value = line.partition(":")
    if not colon:
        raise ParseError("expected `name: value`", line=line)
    return key.strip(), value.strip()


def on_or_off(value: str) -> bool:
    """Read `on` or `off`."""
    if value not in ("on", "off"):
        raise ParseError("expected on or off", line=value)
    return value == "on"


IF_THERE_IS_RDMA = '[ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || exit 0\n'
"""Start of a command whose tool fails if there is no RDMA device: that is a fact, not a failure."""

ABSOLUTE = re.compile(r"^/\S*?/infiniband/")
ENTRY = re.compile(r"([^:\s][^:]*):(.*)")
COMPLAINT = re.compile(r"grep: |Binary file .* matches$")
DEVICE_FILES = {"fw_ver", "hca_type", "board_id", "node_guid", "node_type", "node_desc", "sys_image_guid"}
PORT_FILE = re.compile(r"ports/(\d{1,3})/(.+)", re.ASCII)
DEVICE_PATH = re.compile(
    rf"(?:.*?/)?([^/]+)/(ports/\d{{1,3}}/.+|{'|'.join(sorted(DEVICE_FILES))}|parent|device/numa_node|device/uevent/\w+)",
    re.ASCII | re.DOTALL,
)
"""A file that describes a device; the tree may have been saved below any folder."""

Files = Mapping[str, str]


def rdma_devices(lines: Lines) -> dict[str, Files]:
    """Return path and value of every file, by device; empty text means no device, text without a device is an error.

    A file with several lines keeps the first that is not empty, and `uevent` becomes one file per key below it.
    """
    trees: dict[str, dict[str, str]] = {}
    for path, value in _entries(lines):
        match = DEVICE_PATH.fullmatch(path)
        if match and not trees.setdefault(match.group(1), {}).get(match.group(2)):
            trees[match.group(1)][match.group(2)] = value
    devices: dict[str, Files] = {name: files for name, files in trees.items() if any(map(_is_of_rdma, files))}
    lines.require(devices or not lines.text.strip(), "no RDMA device in this tree")
    return devices


def ports_of(files: Files) -> dict[str, dict[str, str]]:
    """Return the files of a device by port, with paths below the port."""
    ports: dict[str, dict[str, str]] = {}
    for path, value in files.items():
        match = PORT_FILE.fullmatch(path)
        if match:
            ports.setdefault(match.group(1), {})[match.group(2)] = value
    return dict(sorted(ports.items(), key=lambda port: int(port[0])))


def _entries(lines: Lines) -> Iterator[tuple[str, str]]:
    for line in lines:
        if COMPLAINT.match(line):
            continue
        match = ENTRY.fullmatch(ABSOLUTE.sub("", line))
        if not match:
            lines.unknown(line)
            continue
        path, value = match.group(1), match.group(2).strip()
        if path.endswith("/uevent"):
            key, _, value = value.partition("=")
            path = f"{path}/{key}"
        yield path, value


def _is_of_rdma(path: str) -> bool:
    return path in DEVICE_FILES or PORT_FILE.fullmatch(path) is not None
