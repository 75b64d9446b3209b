"""Which engine carries the gradients: the one that was asked for, or the best of those that work, by trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from railbed.collective.rollcall import Reply
from railbed.collective.timing import Timing
from railbed.errors import RankFailed
from railbed.model.amount import duration, size

ENGINES = ("nccl", "mpi", "gloo")
"""The best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The engine, and why it is that one."""

    engine: str
    reason: str
    path: str = ""
    """The engine with what it goes over."""
    falls_back: bool = False
    """Whether gradients go over TCP between machines without anybody having asked for that."""
    timings: Mapping[str, Sequence[Timing]] = field(default_factory=dict)
    """What was tried, by engine."""


def candidates(wanted: str, replies: Sequence[Reply]) -> tuple[list[str], str]:
    """Return the engines to try, the best first, and why better ones are left out.

    What was asked for is the only candidate; where it cannot be, RankFailed says on which node and why.
    """
    if wanted != "auto":
        if wanted not in ENGINES:
            raise RankFailed(f"there is no transport {wanted}; {', '.join(ENGINES)} and auto are known", refused=True)
        if why := _hindrance(wanted, replies):
            raise refusal(wanted, why)
        return [wanted], ""
    gpus = all(one.device.startswith("cuda") for one in replies)
    preferred = ["nccl" if gpus else "mpi", "gloo"]
    why = _hindrance(preferred[0], replies) or ("" if gpus else _no_rdma(replies))
    return (preferred[1:], why) if why else (preferred, "")


def refusal(engine: str, why: str) -> RankFailed:
    """Return the error for an engine that was asked for and does not work."""
    return RankFailed(
        f"{engine} was asked for and does not work here: {why}", hint="`auto` takes what works", refused=True
    )


def decide(wanted: str, replies: Sequence[Reply], timings: Mapping[str, Sequence[Timing]], left_out: str) -> Choice:
    """Return the fastest of the engines that were tried; `left_out` says why a better one was not, or failed."""
    engine = min(timings, key=lambda one: _pace(one, timings))
    way = path_of(engine, replies)
    rivals = [
        f"{path_of(one, replies)} works and takes {_spoken(one, engine, timings)}" for one in timings if one != engine
    ]
    told = [f"{way}: {_measured(timings[engine])}" if timings[engine] else way]
    told += ["as asked for"] if wanted != "auto" else []
    told += [f"because {left_out}"] if left_out else []
    between = len({one.machine for one in replies}) > 1
    return Choice(
        engine=engine,
        reason="; ".join([*told, *rivals]),
        path=way,
        falls_back=wanted == "auto" and between and "TCP" in way,
        timings=timings,
    )


def path_of(engine: str, replies: Sequence[Reply]) -> str:
    """Return an engine with what it goes over, as far as it is known before anything is counted."""
    first = replies[0]
    if len({one.machine for one in replies}) == 1:
        return f"{engine} within one machine"
    if engine == "gloo" or (engine == "mpi" and not first.rdma):
        return f"{engine} over TCP ({first.interface})"
    return f"{engine} over RDMA ({first.rdma})" if first.rdma else engine


def _hindrance(engine: str, replies: Sequence[Reply]) -> str:
    """Return why an engine cannot be used, by the first rank that says so."""
    for one in replies:
        if engine in one.lacks:
            return f"{one.place}: {one.lacks[engine]}"
    used = [(one.machine, one.device) for one in replies]
    if engine == "nccl" and (twice := [one for at, one in enumerate(replies) if used.index(used[at]) != at]):
        return f"{twice[0].place}: two ranks share {twice[0].device}, and nccl wants a GPU for each"
    return ""


def _no_rdma(replies: Sequence[Reply]) -> str:
    """Return why MPI would bring nothing."""
    if len({one.machine for one in replies}) == 1:
        return "all ranks are on one machine"
    return next((f"{one.place}: {one.no_rdma}" for one in replies if not one.rdma), "")


def _pace(engine: str, timings: Mapping[str, Sequence[Timing]]) -> float:
    """Return the seconds of the largest size that all engines were tried with."""
    sizes = [{timing.size for timing in tried} for tried in timings.values()]
    common = set.intersection(*sizes) if sizes else set()
    return next((timing.seconds for timing in timings[engine] if common and timing.size == max(common)), 0.0)


def _measured(tried: Sequence[Timing]) -> str:
    last = tried[-1]
    return f"{size(last.size)} in {duration(last.seconds)}, {size(last.rate)}/s"


def _spoken(engine: str, chosen: str, timings: Mapping[str, Sequence[Timing]]) -> str:
    return f"{duration(_pace(engine, timings))} where {chosen} takes {duration(_pace(chosen, timings))}"
