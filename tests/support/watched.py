"""A sampled training run of any size, generated: nodes with two ports behind a switch, an incast and a silent node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from railbed.model.meters import METERS, MISSING, Sample, SeriesKey
from railbed.model.record import Measurement
from railbed.store import OpenRun, open_run
from railbed.store.series import SeriesWriter
from tests.support.events import event

Ints = NDArray[np.int64]
SWITCH = "leaf1"
PORTS = ("rail0", "rail1")
LINK = 12.5e9
"""Bytes per second of a link."""


@dataclass(frozen=True)
class Generated:
    """What a run has: the incast lasts a twentieth of it, from the middle on, towards node 3."""

    nodes: int = 4
    seconds: int = 120
    interval: float = 1.0
    seed: int = 1

    @property
    def names(self) -> list[str]:
        return [f"node{number}" for number in range(1, self.nodes + 1)]

    @property
    def count(self) -> int:
        return int(self.seconds / self.interval)

    @property
    def incast(self) -> slice:
        return slice(self.count // 2, self.count // 2 + max(3, self.count // 20))

    def cluster(self) -> str:
        lines = ["name: generated", "rails:"]
        lines += [f"  {rail}: {{subnet: 10.{80 + index}.0.0/24, speed: 100}}" for index, rail in enumerate(PORTS)]
        lines.append("nodes:")
        for number, name in enumerate(self.names, 1):
            lines += [f"  {name}:", f"    host: 10.0.3.{number}", "    ports:"]
            lines += [
                f"      - {{netdev: {rail}, rdma: mlx5_{index}, rail: {rail}, address: 10.{80 + index}.0.{number}}}"
                for index, rail in enumerate(PORTS)
            ]
        lines += ["switches:", f"  {SWITCH}:", "    host: 10.0.3.200", "    ports:"]
        for number, name in enumerate(self.names, 1):
            lines += [
                f"      - {{name: Ethernet1/{number * 2 - 1 + index}, node: {name}, netdev: {rail}}}"
                for index, rail in enumerate(PORTS)
            ]
        return "\n".join(lines) + "\n"


class Generator:
    """Samples of every device for every second."""

    def __init__(self, about: Generated) -> None:
        self._about = about
        self._random = np.random.default_rng(about.seed)
        self.layouts: dict[str, tuple[SeriesKey, ...]] = {}
        self.values: dict[str, list[list[int]]] = {}
        for number, name in enumerate(about.names):
            self._add(name, self._node(number))
        self._add(SWITCH, self._switch())

    def samples(self, index: int, when: float) -> Iterator[Sample]:
        for device, layout in self.layouts.items():
            if device == "node2" and 0.25 < index / self._about.count < 0.28:
                continue
            yield Sample(device, when, layout, self.values[device][index])

    def _add(self, device: str, columns: dict[tuple[str, str, str], Ints]) -> None:
        self.layouts[device] = tuple(SeriesKey(device, *key) for key in columns)
        self.values[device] = np.stack(list(columns.values()), axis=1).tolist()

    def _counter(self, rate: NDArray[np.float64] | float) -> Ints:
        full = np.broadcast_to(np.asarray(rate, float), (self._about.count,))
        return np.cumsum(full * self._about.interval).astype(np.int64)

    def _noise(self, mean: float, spread: float = 0.1) -> NDArray[np.float64]:
        return np.maximum(0, self._random.normal(mean, mean * spread, self._about.count))

    def _during_incast(self, value: float) -> NDArray[np.float64]:
        values = np.zeros(self._about.count)
        values[self._about.incast] = value
        return values

    def _node(self, number: int) -> dict[tuple[str, str, str], Ints]:
        hit = number == 2
        columns: dict[tuple[str, str, str], Ints] = {}
        for port in PORTS:
            busy = self._noise(0.6 * LINK) * (1 - self._during_incast(0.55))
            columns["rdma_tx_bytes", port, ""] = self._counter(busy)
            columns["rdma_rx_bytes", port, ""] = self._counter(
                self._noise(0.6 * LINK) + self._during_incast(hit * 0.35 * LINK)
            )
            columns["net_tx_bytes", port, ""] = self._counter(self._noise(2e4))
            columns["net_rx_bytes", port, ""] = self._counter(self._noise(2e4))
            columns["rdma_cnp_sent", port, ""] = self._counter(self._during_incast(hit * 900.0))
            columns["rdma_cnp_handled", port, ""] = self._counter(self._during_incast((not hit) * 300.0))
            columns["rdma_ecn_marked_packets", port, ""] = self._counter(self._during_incast(hit * 4000.0))
            columns["rdma_out_of_sequence", port, ""] = self._counter(0)
            columns["net_rx_drops", port, ""] = self._counter(0)
            for priority in range(8):
                paused = self._during_incast((priority == 3 and not hit) * 2.5e5)
                columns["pause_rx_us", port, str(priority)] = self._counter(paused)
                columns["pause_rx_frames", port, str(priority)] = self._counter(paused / 50)
                columns["pause_tx_us", port, str(priority)] = self._counter(0)
                columns["pause_tx_frames", port, str(priority)] = self._counter(0)
        columns["cpu_busy_us", "", ""] = self._counter(self._noise(6e6))
        columns["cpu_softirq_us", "", ""] = self._counter(self._noise(2e5))
        columns["memory_used_bytes", "", ""] = self._noise(2e11, 0.01).astype(np.int64)
        columns["memory_total_bytes", "", ""] = np.full(self._about.count, 10**12)
        for gpu in range(2):
            columns["gpu_busy", "", str(gpu)] = np.minimum(100, self._noise(93, 0.04)).astype(np.int64)
            columns["gpu_power", "", str(gpu)] = self._noise(5.2e5, 0.05).astype(np.int64)
            columns["gpu_temperature", "", str(gpu)] = self._noise(61, 0.02).astype(np.int64)
            columns["gpu_memory_used_bytes", "", str(gpu)] = np.full(self._about.count, 7 * 10**10)
        columns["gpu_clock", "", "0"] = np.full(self._about.count, MISSING)
        return columns

    def _switch(self) -> dict[tuple[str, str, str], Ints]:
        columns: dict[tuple[str, str, str], Ints] = {}
        for number in range(self._about.nodes):
            for index in range(len(PORTS)):
                port = f"Ethernet1/{number * 2 + 1 + index}"
                hit = number == 2
                columns["switch_rx_bytes", port, ""] = self._counter(self._noise(0.6 * LINK))
                columns["switch_tx_bytes", port, ""] = self._counter(self._noise(0.6 * LINK))
                columns["queue_depth_bytes", port, "3"] = (self._noise(2e4) + self._during_incast(hit * 1.6e6)).astype(
                    np.int64
                )
                columns["queue_ecn_marked_packets", port, "3"] = self._counter(self._during_incast(hit * 4000.0))
                columns["queue_drop_packets", port, "3"] = self._counter(0)
        return columns


@contextmanager
def generated_run(about: Generated, *, end: float | None = None) -> Iterator[tuple[OpenRun, Callable[[int], None]]]:
    """Open a run whose samples end at a time; the second value writes the samples and steps of one interval."""
    assert METERS["rdma_tx_bytes"]
    start = (time.time() if end is None else end) - about.seconds
    generator = Generator(about)
    random = np.random.default_rng(about.seed)
    with (
        open_run("train", cluster_name="generated", cluster_text=about.cluster()) as run,
        SeriesWriter(run.folder) as writer,
    ):

        def write(index: int) -> None:
            when = start + index * about.interval
            for sample in generator.samples(index, when):
                writer.append(sample)
            if index % 2 == 0:
                for record in _step(about, index, when, random):
                    run.append(record)
            for name, subject, message in _events(about, index):
                data = {"why": message} if name == "sampling_gap" else {"step": index}
                run.append(event(name, subject=subject, message=message, data=data, time=when))

        yield run, write


def write_generated(about: Generated, *, end: float | None = None) -> Path:
    """Write a complete run and return its folder."""
    with generated_run(about, end=end) as (run, write):
        for index in range(about.count):
            write(index)
        run.finish("done", 0)
    return run.folder


def _step(about: Generated, index: int, when: float, random: np.random.Generator) -> Iterator[Measurement]:
    slow = about.incast.start <= index < about.incast.stop
    for rank, node in enumerate(about.names):
        labels: dict[str, str | int] = {"step": index // 2 + 1, "rank": rank, "node": node}
        values = {
            "step_seconds": (1.2 if slow else 0.42) * random.normal(1, 0.02),
            "allreduce_exposed_seconds": (0.8 if slow else 0.04) * random.normal(1, 0.1),
        }
        if rank == 0:
            values["loss"] = 2.2 + 8.0 / (1 + index / 60) + random.normal(0, 0.03)
        for name, value in values.items():
            unit = "nat" if name == "loss" else "s"
            yield Measurement(name=name, value=float(value), unit=unit, labels=labels, time=when)


def _events(about: Generated, index: int) -> Iterator[tuple[str, str, str]]:
    if index == about.incast.start:
        yield "notice", "node3", "three senders write to node3 at the same time"
    if index == int(about.count * 0.25) + 2:
        yield "sampling_gap", "node2", "node2 does not answer"
    if index == int(about.count * 0.8):
        yield "restart", "node1", "restarted from step 40 because node1 did not answer"
    if index and index % max(20, about.count // 8) == 0:
        yield "checkpoint", "node1", ""
