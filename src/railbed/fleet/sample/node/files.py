"""Counters that the kernel shows as files: RDMA ports, network interfaces, processors, memory, TCP and IP.

Files stay open: reading one again takes a microsecond or two. A file that a driver does not fill is not a counter.
"""

from __future__ import annotations

import os
import time

from railbed.fleet.sample.node.group import CounterGroup

NUMBER_BYTES = 64
TEXT_BYTES = 65536
GIDS = 16
"""Entries of a port's GID table that are searched for its network interface."""
TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of /proc/stat: user, nice, system, irq, softirq, steal. Time of guests is part of user."""
SOFTIRQ = 6
NET = {
    "rx_bytes": "statistics/rx_bytes",
    "tx_bytes": "statistics/tx_bytes",
    "rx_packets": "statistics/rx_packets",
    "tx_packets": "statistics/tx_packets",
    "rx_errors": "statistics/rx_errors",
    "tx_errors": "statistics/tx_errors",
    "rx_dropped": "statistics/rx_dropped",
    "tx_dropped": "statistics/tx_dropped",
    "carrier_changes": "carrier_changes",
}


class NumberFiles(CounterGroup):
    """Files with one number each; those that hold no number are left out."""

    def __init__(self, source: str, port: str, paths: dict[str, str]) -> None:
        self.source, self.port = source, port
        self._open = {}
        for name, path in paths.items():
            descriptor = open_file(path)
            if descriptor is None:
                continue
            if number(descriptor) is None:
                os.close(descriptor)
            else:
                self._open[name] = descriptor
        self.names = list(self._open)

    def read(self) -> list[int | None]:
        """Return the numbers, None for each that could not be read."""
        return [number(descriptor) for descriptor in self._open.values()]

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._open.values():
            os.close(descriptor)


class Host(CounterGroup):
    """Processors, memory, TCP, IP, and the processor time of this process."""

    source, port = "host", ""

    def __init__(self) -> None:
        self._open = {name: open_file(f"/proc/{name}") for name in ("stat", "meminfo", "net/snmp", "net/netstat")}
        self.names = [name for name, value in self._all().items() if value is not None]

    def read(self) -> list[int | None]:
        """Return the numbers."""
        values = self._all()
        return [values.get(name) for name in self.names]

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._open.values():
            if descriptor is not None:
                os.close(descriptor)

    def _all(self) -> dict[str, int | None]:
        tcp, ip = self._table("net/snmp", b"Tcp:"), self._table("net/netstat", b"IpExt:")
        more = self._table("net/netstat", b"TcpExt:")
        return {
            **_processors(self._text("stat")),
            **_memory(self._text("meminfo")),
            "tcp_segments_sent": tcp.get(b"OutSegs"),
            "tcp_retransmits": tcp.get(b"RetransSegs"),
            "tcp_needless": more.get(b"TCPDSACKRecvSegs", more.get(b"TCPDSACKRecv")),  # the former since Linux 5.12
            "ip_ce_packets": ip.get(b"InCEPkts"),
            "reader_cpu_us": time.process_time_ns() // 1000,
        }

    def _table(self, file: str, title: bytes) -> dict[bytes, int]:
        """Return the numbers of a title, which has a line of names and a line of numbers."""
        lines = [line.split()[1:] for line in self._text(file).splitlines() if line.startswith(title)]
        return dict(zip(lines[0], map(int, lines[1]))) if len(lines) == 2 else {}  # noqa: B905  (older Pythons)

    def _text(self, file: str) -> bytes:
        descriptor = self._open[file]
        try:
            return os.pread(descriptor, TEXT_BYTES, 0) if descriptor is not None else b""
        except OSError:
            return b""


def _processors(text: bytes) -> dict[str, int]:
    fields = text.split(b"\n", 1)[0].split()[1:]
    if len(fields) <= max(BUSY):
        return {}
    return {
        "cpu_busy_us": sum(int(fields[column]) for column in BUSY) * TICK_US,
        "cpu_softirq_us": int(fields[SOFTIRQ]) * TICK_US,
    }


def _memory(text: bytes) -> dict[str, int]:
    lines = (line.split() for line in text.splitlines()[:8])
    kilobytes = {line[0]: int(line[1]) for line in lines if len(line) > 1}
    total, available = kilobytes.get(b"MemTotal:"), kilobytes.get(b"MemAvailable:")
    if total is None or available is None:
        return {}
    return {"memory_used_bytes": (total - available) * 1024, "memory_total_bytes": total * 1024}


def interface_files(sys: str, name: str) -> NumberFiles:
    """Return the counters of a network interface."""
    return NumberFiles("net", name, {key: f"{sys}/net/{name}/{path}" for key, path in NET.items()})


def rdma_files(sys: str, wanted: list[str]) -> list[NumberFiles]:
    """Return the wanted counters (`counters/…`, `hw_counters/…`) of every RDMA port."""
    groups = []
    for device in listing(f"{sys}/infiniband"):
        for port in listing(f"{sys}/infiniband/{device}/ports"):
            folder = f"{sys}/infiniband/{device}/ports/{port}"
            existing = {
                f"{kind}/{name}" for kind in ("counters", "hw_counters") for name in listing(f"{folder}/{kind}")
            }
            paths = {name: f"{folder}/{name}" for name in wanted if name in existing}
            groups.append(NumberFiles("rdma", rdma_netdev(sys, device, port), paths))
    return groups


def rdma_netdev(sys: str, device: str, port: str) -> str:
    """Return the network interface of an RDMA port; without one, the name of the device."""
    folder = f"{sys}/infiniband/{device}"
    for index in range(GIDS):
        name = text_of(f"{folder}/ports/{port}/gid_attrs/ndevs/{index}")
        if name:
            return name
    parent = text_of(f"{folder}/parent")  # Soft-RoCE
    return parent or (listing(f"{folder}/device/net") or [device])[0]


def interfaces(sys: str, ports: list[str]) -> list[str]:
    """Return the interfaces to read: those of the cluster file, of cards, and of RDMA ports; without any, loopback."""
    existing = listing(f"{sys}/net")
    of_cards = {name for name in existing if os.access(f"{sys}/net/{name}/device", os.F_OK)}
    of_rdma = {
        rdma_netdev(sys, device, port)
        for device in listing(f"{sys}/infiniband")
        for port in listing(f"{sys}/infiniband/{device}/ports")
    }
    chosen = [name for name in existing if name in of_cards or name in of_rdma or name in ports]
    return chosen or [name for name in existing if name == "lo"]


def identity(path: str) -> int:
    """Return a number that no other device has, not even a later one of the same name; 0 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def open_file(path: str) -> int | None:
    """Return a descriptor of a file, or None."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def number(descriptor: int) -> int | None:
    """Return the number in a file; drivers write `N/A`, or fail, for a counter that they do not have."""
    try:
        return int(os.pread(descriptor, NUMBER_BYTES, 0))
    except (OSError, ValueError):
        return None


def text_of(path: str) -> str:
    """Return the text of a short file; empty if it cannot be read."""
    descriptor = open_file(path)
    if descriptor is None:
        return ""
    try:
        return os.read(descriptor, NUMBER_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def listing(path: str) -> list[str]:
    """Return the names in a folder, in order; none if it does not exist."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
