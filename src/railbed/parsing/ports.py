"""Output about all network interfaces and RDMA ports of a node: the shell loops, and what they print.

ethtool has its own messages for unsupported queries. A tree below /sys/class/infiniband is printed as
`device/path:value` lines, the way `grep -r ''` prints files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from textwrap import dedent

from railbed.errors import ParseError
from railbed.parsing.text import sections

NOT_SUPPORTED = re.compile(
    r"^(Cannot (get|read|dump) .*|netlink (error|warning): .*|No data available|no (stats|feature info) available"
    r"|Operation not supported)$"
)
"""What ethtool prints if a driver does not support a query: a fact about the driver, not a parse error."""

TITLE = re.compile(r"^(Settings|Pause parameters|Features|Offload parameters) for (?P<name>\S+):\s*$")


def for_each_interface(command: str) -> str:
    """Return a shell loop that runs a command for every interface but loopback; `$name` is the interface."""
    return (
        "for path in /sys/class/net/*; do name=${path##*/}; "
        'if [ "$name" = lo ] || [ ! -e "$path/ifindex" ]; then continue; fi; '
        f'echo "==> $name <=="; {command} 2>&1; done; true'
    )


def answers(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each interface with the lines that ethtool printed for it, without empty lines and unsupported queries.

    The output of an interface may be empty; an empty text is an error. Saved without our header, most output of ethtool
    names the interface in its title, so that several may follow each other.
    """
    if not text.strip():
        raise ParseError("nothing was printed")
    for name, part in sections(text):
        lines = [line for line in dedent(part).splitlines() if line.strip() and not NOT_SUPPORTED.match(line.strip())]
        if name:
            yield name, lines
        else:
            yield from _by_title(lines)


def _by_title(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    titles = [(number, match["name"]) for number, match in enumerate(map(TITLE.match, lines)) if match]
    if not titles or titles[0][0] > 0:
        yield "", lines
        return
    for (start, name), (end, _) in pairwise([*titles, (len(lines), "")]):
        yield name, lines[start:end]


def without_title(lines: list[str], title: str) -> list[str]:
    """Return the lines after the title; an interface without output has no title."""
    if lines and not lines[0].startswith(title):
        raise ParseError(f"expected {title!r}", line=lines[0])
    return lines[1:]


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


def rdma_devices(text: str) -> dict[str, Files]:
    """Return path and value of every file, by device; empty text means no device, text without a device is an error.

    A file with several lines keeps the first that is not empty, and `uevent` becomes one file per key below it.
    """
    trees: dict[str, dict[str, str]] = {}
    for path, value in _entries(text):
        match = DEVICE_PATH.fullmatch(path)
        if match and not trees.setdefault(match.group(1), {}).get(match.group(2)):
            trees[match.group(1)][match.group(2)] = value
    devices: dict[str, Files] = {name: files for name, files in trees.items() if any(map(_is_of_rdma, files))}
    if text.strip() and not devices:
        raise ParseError("no RDMA device in this tree", line=text.strip().split("\n", 1)[0])
    return devices


def ports_of(files: Files) -> dict[str, dict[str, str]]:
    """Return the files of a device by port, with paths below the port."""
    ports: dict[str, dict[str, str]] = {}
    for path, value in files.items():
        match = PORT_FILE.fullmatch(path)
        if match:
            ports.setdefault(match.group(1), {})[match.group(2)] = value
    return dict(sorted(ports.items(), key=lambda port: int(port[0])))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if not line.strip() or COMPLAINT.match(line):
            continue
        match = ENTRY.fullmatch(ABSOLUTE.sub("", line.rstrip("\r")))
        if not match:
            raise ParseError("expected `path:value`", line=line)
        path, value = match.group(1), match.group(2).strip()
        if path.endswith("/uevent"):
            key, _, value = value.partition("=")
            path = f"{path}/{key}"
        yield path, value


def _is_of_rdma(path: str) -> bool:
    return path in DEVICE_FILES or PORT_FILE.fullmatch(path) is not None
