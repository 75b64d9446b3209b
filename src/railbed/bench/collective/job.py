"""The collective benchmark as a job: its ranks, and the records that their messages become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.bench.collective.spec import CollectiveSpec, Operation, bus_factor
from railbed.bench.measure.results import MEASURED, WHY
from railbed.launch.job import RankStart, rank_specs, rank_starts
from railbed.launch.placement import Placement
from railbed.launch.protocol import Message
from railbed.model import events
from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.model.text.amount import plural

FUNCTION = "railbed.bench.collective.worker.loop:run"
ONE_JOB = "bench_one_job"
WHY_ONE_JOB = "Ranks that never joined each other look fast: each of them measured itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """What a rank reported before it ended."""

    sentence: str
    hint: str
    missing: bool
    """A Python package is not installed on its node."""


@dataclass
class CollectiveJob:
    """A job of a single generation: with other nodes it would measure something else."""

    run: str
    engine: str
    operations: tuple[Operation, ...]
    ranks: dict[int, str] = field(default_factory=dict)
    """The node of each rank."""
    errors: dict[int, RankError] = field(default_factory=dict)
    preload: Sequence[str] = ()
    advice: str = ""
    may_regroup: bool = False
    _numbers: dict[int, int] = field(default_factory=dict)
    _received: dict[int, list[int]] = field(default_factory=dict)
    """For each rank, the random numbers of all ranks, as a collective delivered them."""
    _version: str = ""
    _path: str = ""
    """The engine and its network, as the ranks reported them."""

    def generation(self, number: int, placements: Sequence[Placement], port: int) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks."""
        specs = [
            CollectiveSpec(**spec.common(), engine=self.engine, operations=self.operations)
            for spec in rank_specs(self.run, number, placements, port)
        ]
        self.ranks = {spec.rank: spec.node for spec in specs}
        return rank_starts(FUNCTION, specs, placements)

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Return the records of a message."""
        match message:
            case {"kind": "joined", "own": int(own), "seen": list(received)}:
                self._numbers[rank], self._received[rank] = own, received
                self.engine, self._version = str(message.get("engine")), str(message.get("version"))
                self._path = str(message.get("path"))
                return [self._proof()] if len(self._numbers) == len(self.ranks) else []
            case {"kind": "result", "operation": str(name), "size": int(size), "seconds": float(seconds)}:
                return list(self._measurements(name, size, seconds, message))
            case {"kind": "skipped", "operation": str(name), "sentence": str(sentence)} if rank == 0:
                return [not_measured("cluster", Verdict.SKIPPED, name, sentence)]
            case {"kind": "intrusion", "sentence": str(sentence)}:
                return [events.Intrusion(subject=node, message=sentence, address=message["address"])]
            case {"kind": "error", "sentence": str(sentence)}:
                hint, missing = str(message.get("hint") or ""), bool(message.get("missing"))
                self.errors[rank] = RankError(sentence=f"{node}: {sentence}", hint=hint, missing=missing)
        return []

    def _proof(self) -> Finding:
        """Judge whether all ranks were in one job: each received the random number of every other."""
        numbers = [self._numbers[rank] for rank in sorted(self._numbers)]
        apart = [rank for rank, received in self._received.items() if received != numbers]
        nodes = len(set(self.ranks.values()))
        observed = (
            f"{self.ranks[apart[0]]} (rank {apart[0]}) did not receive the numbers of all others"
            if apart
            else f"{plural(len(numbers), 'rank')} on {plural(nodes, 'node')} received each other's random numbers"
        )
        return Finding(
            check=ONE_JOB,
            subject="cluster",
            verdict=Verdict.FAIL if apart else Verdict.OK,
            expected=f"{plural(len(self.ranks), 'rank')} in one job",
            observed=observed,
            why=WHY_ONE_JOB,
        )

    def _measurements(self, name: str, size: int, seconds: float, message: Message) -> Iterator[Measurement]:
        ranks = len(self.ranks)
        labels: dict[str, str | int] = {
            "tool": "railbed",
            "test": name,
            "version": self._version,
            "engine": self.engine,
            "over": self._path,
            "size": size,
            "ranks": ranks,
            "nodes": len(set(self.ranks.values())),
            "iterations": int(message.get("iterations", 1)),
            "repeat": int(message.get("repeat", 1)),
        }
        algorithm = size / seconds * 1e-9
        bus = algorithm * bus_factor(name, ranks)
        yield Measurement(name="collective_time", value=seconds * 1e6, unit="us", labels=labels)
        yield Measurement(name="algorithm_bandwidth", value=algorithm, unit="GB/s", labels=labels)
        yield Measurement(name="bus_bandwidth", value=bus, unit="GB/s", labels=labels)


def not_measured(subject: str, verdict: Verdict, what: str, observed: str, remedy: str = "") -> Finding:
    """Return the finding for something that could not be measured."""
    expected = f"a measurement of {what}"
    return Finding(
        check=MEASURED, subject=subject, verdict=verdict, expected=expected, observed=observed, why=WHY, remedy=remedy
    )
