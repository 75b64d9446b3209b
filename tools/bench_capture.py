"""Measure reading captures, with both engines, and tshark on the same packets.

    python -m tools.bench_capture [--packets 10000000] [--snap 96] [--repeats 3] [--peer-packets 200000] [--format pcap]

The file is that of a port with sixteen connections that write messages of 32 KiB with an MTU of 4096: eight packets, an
acknowledgement, and now and then a congestion notification. Each reading is a process of its own, whose memory is
measured; its time is that of `read_recording`, with the file in the page cache and numba's code already compiled.
tshark prints the fields that railbed decodes, for a slice of the same file, scaled up.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.captures import files
from tests.captures.flows import Flow, in_order
from tests.captures.truth import START, Packet

from railbed.capture.files import read_recording
from railbed.capture.files.columns import EngineName

UNIT = 20_000
FLOWS = 16
MESSAGE = 8 * 4096
FIELDS = (
    *("frame.number", "frame.time_epoch", "frame.len", "ip.src", "ip.dst", "ip.dsfield", "udp.srcport", "vlan.id"),
    *("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.p_key"),
    *("infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.reth.dmalen", "infiniband.deth.srcqp"),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--snap", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-packets", type=int, default=200_000)
    parser.add_argument("--format", choices=("pcap", "pcapng"), default="pcap")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        measure_reading(arguments.read[0], Path(arguments.read[1]))
        return
    with tempfile.TemporaryDirectory(prefix="railbed-bench-") as folder:
        path, part = Path(folder, "all.pcap"), Path(folder, "part.pcap")
        write_capture(path, arguments.packets, arguments.snap, arguments.format)
        write_capture(part, arguments.peer_packets, arguments.snap, arguments.format)
        size = path.stat().st_size
        print(f"{arguments.packets:,} packets, snap length {arguments.snap}, {arguments.format}, {size / 1e6:,.0f} MB")
        peer = measure_tshark(part, arguments.peer_packets)
        for engine in ("numpy", "numba"):
            show(engine, [in_a_process(engine, path) for _ in range(arguments.repeats)], peer)


def unit(count: int) -> list[Packet]:
    """Return packets of all connections, as one port records them."""
    flows = [
        Flow(
            source=f"10.0.{index}.1",
            destination=f"10.0.{index + 1}.1",
            qp=0x100 + index,
            reverse_qp=0x200 + index,
            source_port=0xC000 + index,
            mtu=4096,
            time=START + 37 * index,
        )
        for index in range(FLOWS)
    ]
    packets: list[Packet] = []
    while len(packets) < count:
        for flow in flows:
            packets += [*flow.write(MESSAGE), flow.ack()]
        packets.append(flows[len(packets) % FLOWS].notify())
    return in_order(packets[:count])


def write_capture(path: Path, count: int, snap: int, kind: str) -> None:
    """Write the same packets again and again, a second later each time."""
    records = files.records(unit(UNIT), snap=snap)
    lengths = np.array([len(record.data) for record in records])
    if kind == "pcap":
        content, head = files.pcap(records, snap=snap), len(files.pcap([]))
        sizes, seconds = lengths + 16, 0
    else:
        interface = files.Interface(
            snap=snap, resolution=0x80 | 32
        )  # its ticks have the seconds in a word of their own
        content, head = files.pcapng(records, interface=interface), len(files.pcapng([], interface=interface))
        sizes, seconds = lengths + 32 + -lengths % 4, 12
    body = np.frombuffer(content, np.uint8)[head:].copy()
    words = np.ndarray((len(body) - 3,), "<u4", body.data, 0, (1,))
    places = np.cumsum(sizes) - sizes + seconds
    with path.open("wb") as file:
        file.write(content[:head])
        for _ in range(count // UNIT):
            file.write(body.data)
            words[places] += np.uint32(1)


def measure_reading(engine: str, path: Path) -> None:
    """Read a file, and print what it took."""
    chosen: EngineName = "numba" if engine == "numba" else "numpy"
    with tempfile.NamedTemporaryFile() as small:
        small.write(files.pcap(files.records([Packet()])))
        small.flush()
        read_recording(Path(small.name), engine=chosen)
    begin, spent = time.perf_counter(), time.process_time()
    recording = read_recording(path, engine=chosen)
    seconds, spent = time.perf_counter() - begin, time.process_time() - spent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    decoded = {"packets": recording.total, "decoded": len(recording.packets)}
    print(json.dumps({**decoded, "seconds": seconds, "cpu": spent, "memory": memory}))


def in_a_process(engine: str, path: Path) -> dict[str, float]:
    """Return what reading takes in a process of its own."""
    words = [sys.executable, "-m", "tools.bench_capture", "--read", engine, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    if measured["packets"] != measured["decoded"]:
        raise SystemExit(f"{engine} decoded {measured['decoded']:,} of {measured['packets']:,} packets")
    return measured


def measure_tshark(path: Path, count: int) -> float:
    """Return how many packets tshark prints per second."""
    words = ["tshark", "-n", "-r", str(path), "-T", "fields", *(word for name in FIELDS for word in ("-e", name))]
    begin = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    seconds = time.perf_counter() - begin
    print(f"tshark -T fields: {count / seconds:,.0f} packets/s ({count:,} packets in {seconds:.1f} s)")
    return count / seconds


def show(engine: str, measured: list[dict[str, float]], peer: float) -> None:
    """Print the median of some readings."""
    middle = sorted(measured, key=lambda reading: reading["seconds"])[len(measured) // 2]
    rate, per_cpu = middle["packets"] / middle["seconds"], middle["packets"] / middle["cpu"]
    speeds = f"{rate / 1e6:.2f} M packets/s ({per_cpu / 1e6:.2f} M per CPU second)"
    print(f"{engine}: {middle['seconds']:.2f} s, {speeds}, {middle['memory']:,.0f} MB, {rate / peer:,.0f} times tshark")


if __name__ == "__main__":
    main()
