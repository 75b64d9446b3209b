"""Chooses the engine that carries the gradients: the requested one, or the best of those that pass a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from railbed.collective.rollcall import Reply
from railbed.collective.timing import Timing
from railbed.errors import RankFailed
from railbed.model.text.amount import duration, size

ENGINES = ("nccl", "mpi", "gloo")
"""The best one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The engine, and why it was chosen."""

    engine: str
    reason: str
    path: str = ""
    """The engine, and the network that it uses."""
    falls_back: bool = False
    """Whether gradients go over TCP between machines although nobody requested that."""
    timings: Mapping[str, Sequence[Timing]] = field(default_factory=dict)
    """The measured engines."""


def candidates(wanted: str, replies: Sequence[Reply]) -> tuple[list[str], str]:
    """Return the engines to test, the best one first, and why better ones are left out.

    A requested engine is the only candidate; if it cannot be used, RankFailed names the node and the reason.
    """
    if wanted != "auto":
        if wanted not in ENGINES:
            raise RankFailed(f"there is no transport {wanted}; choose from {', '.join(ENGINES)} and auto", refused=True)
        if why := _hindrance(wanted, replies):
            raise refusal(wanted, why)
        return [wanted], ""
    gpus = all(reply.device.startswith("cuda") for reply in replies)
    preferred = ["nccl" if gpus else "mpi", "gloo"]
    why = _hindrance(preferred[0], replies) or ("" if gpus else _no_rdma(replies))
    return (preferred[1:], why) if why else (preferred, "")


def refusal(engine: str, why: str) -> RankFailed:
    """Return the error for an engine that was requested and does not work."""
    return RankFailed(
        f"{engine} was requested and does not work here: {why}", hint="`auto` uses an engine that works", refused=True
    )


def decide(
    wanted: str, replies: Sequence[Reply], timings: Mapping[str, Sequence[Timing]], left_out: str
) -> EngineChoice:
    """Return the fastest of the tested engines; `left_out` is why a better one was not tested, or failed."""
    engine = min(timings, key=lambda name: _pace(name, timings))
    path = path_of(engine, replies)
    rivals = [
        f"{path_of(name, replies)} works and takes {_comparison(name, engine, timings)}"
        for name in timings
        if name != engine
    ]
    reasons = [f"{path}: {_measured(timings[engine])}" if timings[engine] else path]
    reasons += ["as requested"] if wanted != "auto" else []
    reasons += [f"because {left_out}"] if left_out else []
    between = len({reply.machine for reply in replies}) > 1
    return EngineChoice(
        engine=engine,
        reason="; ".join([*reasons, *rivals]),
        path=path,
        falls_back=wanted == "auto" and between and "TCP" in path,
        timings=timings,
    )


def path_of(engine: str, replies: Sequence[Reply]) -> str:
    """Return an engine with the network that it uses, as far as that is known before traffic is counted."""
    first = replies[0]
    if len({reply.machine for reply in replies}) == 1:
        return f"{engine} within one machine"
    if engine == "gloo" or (engine == "mpi" and not first.rdma):
        return f"{engine} over TCP ({first.interface})"
    return f"{engine} over RDMA ({first.rdma})" if first.rdma else engine


def _hindrance(engine: str, replies: Sequence[Reply]) -> str:
    """Return why an engine cannot be used, from the first rank that cannot; empty if all can."""
    for reply in replies:
        if engine in reply.lacks:
            return f"{reply.place}: {reply.lacks[engine]}"
    used = [(reply.machine, reply.device) for reply in replies]
    if engine == "nccl" and (twice := [reply for at, reply in enumerate(replies) if used.index(used[at]) != at]):
        return f"{twice[0].place}: two ranks share {twice[0].device}, and nccl needs a GPU for each"
    return ""


def _no_rdma(replies: Sequence[Reply]) -> str:
    """Return why MPI would have no advantage; empty if it may have one."""
    if len({reply.machine for reply in replies}) == 1:
        return "all ranks are on one machine"
    return next((f"{reply.place}: {reply.no_rdma}" for reply in replies if not reply.rdma), "")


def _pace(engine: str, timings: Mapping[str, Sequence[Timing]]) -> float:
    """Return the seconds of the largest size that all engines were measured with."""
    sizes = [{timing.size for timing in measured} for measured in timings.values()]
    common = set.intersection(*sizes) if sizes else set()
    return next((timing.seconds for timing in timings[engine] if common and timing.size == max(common)), 0.0)


def _measured(timings: Sequence[Timing]) -> str:
    last = timings[-1]
    return f"{size(last.size)} in {duration(last.seconds)}, {size(last.rate)}/s"


def _comparison(engine: str, chosen: str, timings: Mapping[str, Sequence[Timing]]) -> str:
    return f"{duration(_pace(engine, timings))}, compared with {chosen}'s {duration(_pace(chosen, timings))}"
