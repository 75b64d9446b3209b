"""How a port sorts packets: trust in DSCP, the priority of each, flow control, and traffic classes.

Each can be read and set with several tools. Traffic classes (ETS, IEEE 802.1Qaz) say which priority is sent from which
class, and what each class gets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Protocol

from railbed.model.fix import Fix, Persistence, RunStep, Step, as_steps
from railbed.probes import dcb_app, dcb_ets, dcb_pfc, mlnx_qos
from railbed.probes.mlnx_qos import Qos
from railbed.rules.site import PortView

WIDTH = 8
"""Priorities, traffic classes and buffers of a port."""


class DcbFacts(Protocol):
    """What the probes of `dcb` have in common."""

    @property
    def interfaces(self) -> Mapping[str, object]:
        """Interfaces that have the object."""

    @property
    def refused(self) -> Mapping[str, str]:
        """The kernel's error message for the others."""


def ofed_qos(port: PortView) -> Qos | None:
    """Return the output of mlnx_qos for the port's interface, if it was read."""
    facts = port.node.try_read(mlnx_qos.PROBE)
    return facts.interfaces.get(port.port.netdev) if facts else None


def dcb_has(port: PortView, facts: DcbFacts | None) -> bool:
    """Whether `dcb` is installed and shows the object for this interface."""
    return facts is not None and port.port.netdev in facts.interfaces


def refusal(netdev: str, refused: Mapping[str, str]) -> str:
    """Return why `dcb` shows nothing for an interface."""
    return f"dcb: {refused[netdev]}" if netdev in refused else f"no interface {netdev}"


def shows(subject: str, netdev: str, key: str, pairs: Mapping[int, object]) -> str:
    """Return the command that fails unless `dcb` shows these values.

    Setting them proves nothing: `dcb` of iproute2 6.1 exits with 0 even if the kernel refuses `ets` or `buffer`.
    """
    pattern = ".*".join(rf"\b{index}:{value}\b" for index, value in sorted(pairs.items()))
    return f"dcb {subject} show dev {quote(netdev)} {key} | grep -q {quote(pattern)}"


def dcb_row(values: Mapping[int, object]) -> str:
    """Return a map as `dcb` reads it: `0:a 1:b`."""
    return " ".join(quote(f"{index}:{value}") for index, value in sorted(values.items()))


def dscp_priorities(port: PortView) -> dict[int, tuple[int, ...]] | str:
    """Return the priorities by DSCP, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_app.PROBE)
    if facts and netdev in facts.interfaces:
        return {int(dscp): priorities for dscp, priorities in facts.interfaces[netdev].dscp.items()}
    qos = ofed_qos(port)
    if qos and qos.trust is not None:
        return {int(dscp): (priority,) for dscp, priority in qos.dscp_prio.items()}
    return refusal(netdev, port.read(dcb_app.PROBE).refused)


def set_dscp(port: PortView, before: Iterable[int], *, alternative: str = "") -> Fix:
    """Map the policy's DSCP to the policy's priority, instead of to those it is mapped to."""
    netdev, dscp, priority = quote(port.port.netdev), port.policy.dscp, port.policy.priority
    earlier = sorted(before)
    if dcb_has(port, port.node.try_read(dcb_app.PROBE)):
        apply = f"dcb app replace dev {netdev} dscp-prio {dscp}:{priority}"
        pairs = " ".join(f"{dscp}:{number}" for number in earlier)
        undo = as_steps(f"dcb app replace dev {netdev} dscp-prio {pairs}") if earlier else _dcb_delete(port)
        needs_trust = False
    else:
        command, qos = f"mlnx_qos -i {netdev} --dscp2prio", ofed_qos(port)
        apply, needs_trust = f"{command} set,{dscp},{priority}", qos is not None and qos.trust != "dscp"
        undo = as_steps(f"{command} set,{dscp},{earlier[0]}") if earlier else _mlnx_delete(port)
    return Fix(
        device=port.node.name,
        apply=as_steps(apply),
        undo=undo,
        persistence=Persistence.BOOT,
        interrupts=not earlier,
        after=("dscp_trust",) if needs_trust else (),
        alternative=alternative,
    )


def trust_dscp(port: PortView, before: str | None) -> Fix:
    """Make the card trust DSCP: with OFED's tool, else by the entry that makes the inbox driver trust DSCP."""
    netdev, pair = quote(port.port.netdev), f"{port.policy.dscp}:{port.policy.priority}"
    if before is None:
        # The same command as in `set_dscp`, so that the fixes of both rules are equal.
        apply, undo = as_steps(f"dcb app replace dev {netdev} dscp-prio {pair}"), _dcb_delete(port)
    else:
        apply, undo = (as_steps(f"mlnx_qos -i {netdev} --trust {quote(state)}") for state in ("dscp", before))
    return Fix(device=port.node.name, apply=apply, undo=undo, persistence=Persistence.BOOT, interrupts=True)


def _dcb_delete(port: PortView) -> tuple[Step, ...]:
    netdev, pair = quote(port.port.netdev), f"{port.policy.dscp}:{port.policy.priority}"
    present = f"dcb -N app show dev {netdev} dscp-prio | grep -qw {pair}"
    return (RunStep(command=f"dcb app del dev {netdev} dscp-prio {pair}", only_if=present),)


def _mlnx_delete(port: PortView) -> tuple[Step, ...]:
    netdev, dscp, priority = quote(port.port.netdev), port.policy.dscp, port.policy.priority
    present = f"mlnx_qos -i {netdev} | grep -q 'prio:{priority} dscp:.*\\b{dscp:02},'"
    return (RunStep(command=f"mlnx_qos -i {netdev} --dscp2prio del,{dscp},{priority}", only_if=present),)


def pfc_priorities(port: PortView) -> tuple[int, ...] | str:
    """Return the priorities with PFC on, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_pfc.PROBE)
    if facts and netdev in facts.interfaces:
        return facts.interfaces[netdev].enabled
    qos = ofed_qos(port)
    if qos and qos.pfc is not None:
        return qos.pfc
    return refusal(netdev, port.read(dcb_pfc.PROBE).refused)


def set_pfc(
    port: PortView, before: Collection[int], after: Collection[int], *, alternative: str = "", condition: str = ""
) -> Fix:
    """Turn PFC on for some priorities and off for all others; the mlx5 driver restarts the link for it."""
    command = _dcb_pfc if dcb_has(port, port.node.try_read(dcb_pfc.PROBE)) else _mlnx_pfc
    return Fix(
        device=port.node.name,
        apply=as_steps(command(port.port.netdev, after)),
        undo=as_steps(command(port.port.netdev, before)),
        persistence=Persistence.BOOT,
        interrupts=True,
        alternative=alternative,
        condition=condition,
    )


def _dcb_pfc(netdev: str, priorities: Collection[int]) -> str:
    on = "".join(f" {priority}:on" for priority in sorted(priorities))
    return f"dcb pfc set dev {quote(netdev)} prio-pfc all:off{on}"


def _mlnx_pfc(netdev: str, priorities: Collection[int]) -> str:
    switches = ",".join(str(int(priority in priorities)) for priority in range(WIDTH))
    return f"mlnx_qos -i {quote(netdev)} --pfc {switches}"


LOSSLESS_SHARE = 50
"""Percent of the bandwidth that the lossless class gets if others want it, too; the others divide the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """The traffic classes of a port; each row has eight values."""

    prio_tc: tuple[int, ...]
    """Class of each priority."""
    algorithms: tuple[str, ...]
    """`ets`, `strict`, `vendor` or `cbs`, by class."""
    shares: tuple[int, ...]
    """Percent of the bandwidth of each `ets` class; 0 for the others."""
    limit: int = WIDTH
    """Classes that the card has."""

    def list_priorities(self, number: int) -> list[int]:
        """Return the priorities that are sent from a class."""
        return [priority for priority, tc in enumerate(self.prio_tc) if tc == number]


def traffic_classes(port: PortView) -> Classes | str:
    """Return the port's classes, or why they are not known; if neither tool could be read, end as unknown."""
    netdev = port.port.netdev
    facts = port.node.try_read(dcb_ets.PROBE)
    if facts and netdev in facts.interfaces:
        ets = facts.interfaces[netdev]
        # Drivers report 0 or 100 for classes that are not `ets`, and accept only 0.
        shares = tuple(share if tsa == "ets" else 0 for share, tsa in zip(ets.tc_bw, ets.tc_tsa, strict=True))
        return Classes(prio_tc=ets.prio_tc, algorithms=ets.tc_tsa, shares=shares, limit=ets.ets_cap or WIDTH)
    qos = ofed_qos(port)
    if qos and qos.classes:
        return _from_mlnx(qos)
    return refusal(netdev, port.read(dcb_ets.PROBE).refused)


def _from_mlnx(qos: Qos) -> Classes | str:
    rows = {row.tc: row for row in qos.classes if row.tc is not None}
    classes = {priority: number for number, row in rows.items() for priority in row.priorities}
    if len(rows) != len(qos.classes) or sorted(classes) != list(range(WIDTH)) or max(rows) >= WIDTH:
        return "mlnx_qos does not show the class of every priority"
    numbered = [rows.get(number) for number in range(WIDTH)]
    return Classes(
        prio_tc=tuple(classes[priority] for priority in range(WIDTH)),
        algorithms=tuple((row.tsa if row else None) or "strict" for row in numbered),
        shares=tuple((row.bandwidth if row and row.tsa == "ets" else None) or 0 for row in numbered),
    )


def lossless_classes(before: Classes, lossless: int, cnp: int | None) -> Classes | None:
    """Return classes in which the lossless priority has one of its own with a share, and that of CNPs is strict.

    Classes that are strict by somebody's choice stay strict, unless unmarked traffic (priority 0) uses them: it could
    starve all others. Returns None if the card has too few classes.
    """
    prio_tc = list(before.prio_tc)
    if not _separate(prio_tc, lossless, before.limit):
        return None
    is_strict = cnp is not None and before.algorithms[prio_tc[cnp]] == "strict" and prio_tc[cnp] != prio_tc[0]
    if cnp is not None and not is_strict and not _separate(prio_tc, cnp, before.limit):
        return None
    algorithms = [_algorithm(before, prio_tc, number, lossless, cnp) for number in range(WIDTH)]
    shares = [share if algorithm == "ets" else 0 for share, algorithm in zip(before.shares, algorithms, strict=True)]
    sharing = [number for number, algorithm in enumerate(algorithms) if algorithm == "ets"]
    if sum(shares) != 100 or not all(shares[number] for number in sharing):
        shares = _divide(sharing, prio_tc[lossless])
    return Classes(prio_tc=tuple(prio_tc), algorithms=tuple(algorithms), shares=tuple(shares), limit=before.limit)


def _separate(prio_tc: list[int], priority: int, limit: int) -> bool:
    """Give a priority a class that no other has, its own number if that is free; return whether there is one."""
    if prio_tc.count(prio_tc[priority]) == 1:
        return True
    free = [number for number in range(min(limit, WIDTH)) if number not in prio_tc]
    if not free:
        return False
    prio_tc[priority] = priority if priority in free else free[0]
    return True


def _algorithm(before: Classes, prio_tc: list[int], number: int, lossless: int, cnp: int | None) -> str:
    if cnp is not None and number == prio_tc[cnp]:
        return "strict"
    if number not in prio_tc:
        # Its share would be missing from the sum, which has to be 100.
        return "strict" if before.algorithms[number] == "ets" else before.algorithms[number]
    if number in (prio_tc[lossless], prio_tc[0]):
        return "ets"
    # mlx5 sends its `vendor` classes before all others.
    return "ets" if before.algorithms[number] == "vendor" else before.algorithms[number]


def _divide(sharing: list[int], lossless: int) -> list[int]:
    """Return the shares by class: those of the others are as equal as whole numbers can be."""
    others = [number for number in sharing if number != lossless]
    shares = [0] * WIDTH
    shares[lossless] = LOSSLESS_SHARE if others else 100
    for index, number in enumerate(others):
        rest = 100 - LOSSLESS_SHARE
        shares[number] = rest * (index + 1) // len(others) - rest * index // len(others)
    return shares


def set_classes(port: PortView, before: Classes, after: Classes) -> Fix:
    """Set all traffic classes of a port at once: a part of them may be invalid."""
    step = _dcb_step if dcb_has(port, port.node.try_read(dcb_ets.PROBE)) else _mlnx_step
    return Fix(
        device=port.node.name,
        apply=(step(port.port.netdev, after),),
        undo=(step(port.port.netdev, before),),
        persistence=Persistence.BOOT,
    )


def _dcb_step(netdev: str, classes: Classes) -> RunStep:
    maps = {"prio-tc": classes.prio_tc, "tc-tsa": classes.algorithms, "tc-bw": classes.shares}
    command = " ".join(f"{key} {dcb_row(dict(enumerate(row)))}" for key, row in maps.items())
    # Classes that get no share may be shown with any.
    shares = {number: share for number, share in enumerate(classes.shares) if classes.algorithms[number] == "ets"}
    readback = [
        shows("ets", netdev, "prio-tc", dict(enumerate(classes.prio_tc))),
        shows("ets", netdev, "tc-tsa", dict(enumerate(classes.algorithms))),
        *([shows("ets", netdev, "tc-bw", shares)] if shares else []),
    ]
    return RunStep(command=f"dcb ets set dev {quote(netdev)} {command}", verify=" && ".join(readback))


def _mlnx_step(netdev: str, classes: Classes) -> RunStep:
    rows = {"prio_tc": classes.prio_tc, "tsa": classes.algorithms, "tcbw": classes.shares}
    options = " ".join(f"--{name} {quote(','.join(map(str, row)))}" for name, row in rows.items())
    return RunStep(command=f"mlnx_qos -i {quote(netdev)} {options}")
