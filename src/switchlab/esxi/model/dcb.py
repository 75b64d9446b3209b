"""PFC and global pause of a port: who decides, what runs, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass

from switchlab.esxi.model.cards import Nic, Pause
from switchlab.esxi.model.drivers import MODULES, number_in
from switchlab.esxi.model.release import Release

PRIORITIES = range(8)
DCBX_DEFAULT = 3
MODES = {"ieee": "IEEE Mode", "cee": "CEE Mode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcb:
    mode: str
    """The mode as ESXi names it."""
    rx: int
    """The priorities that the port pauses for, a bit for each."""
    tx: int
    """The priorities that it asks the switch to pause."""

    @property
    def is_on(self) -> bool:
        return bool(self.rx or self.tx)

    @property
    def configuration(self) -> str:
        """As `PFC Configuration` has it: priority 0 first."""
        return " ".join(str((self.rx | self.tx) >> priority & 1) for priority in PRIORITIES)


def running(nic: Nic, options: dict[str, str], release: Release) -> Dcb:
    """Return the state of a port: the switch decides if it offers PFC and the port listens; otherwise the options."""
    listens = release.has_dcb and MODULES[nic.driver].has_dcb and number_in(options, "dcbx", DCBX_DEFAULT) != 0
    hears = nic.peer.dcbx if listens and nic.up else ""
    mode = MODES.get(hears, "Unknown")
    if hears and nic.peer.pfc is not None:
        return Dcb(mode=mode, rx=nic.peer.pfc, tx=nic.peer.pfc)
    return Dcb(mode=mode, rx=number_in(options, "pfcrx") & 0xFF, tx=number_in(options, "pfctx") & 0xFF)


def count_pause(nic: Nic, dcb: Dcb, pause: Pause, direction: str, *, frames: int, priority: int | None) -> int:
    """Count pause frames; those for a mode that does not run change nothing but the count of the wire."""
    if direction not in ("rx", "tx"):
        raise ValueError("direction must be rx or tx")
    if frames < 0 or (priority is not None and priority not in PRIORITIES):
        raise ValueError("frames must not be negative, and priority must be from 0 to 7")
    counters = nic.counters
    if priority is not None:
        if not (dcb.rx if direction == "rx" else dcb.tx) >> priority & 1:
            return 0
        counters.add(f"{direction}_prio{priority}_pause", frames)
        counters.add(f"pfc_{'received' if direction == 'rx' else 'sent'}_{priority}", frames)
        return frames
    is_on = pause.rx if direction == "rx" else pause.tx
    if is_on or direction == "rx":
        counters.add(f"{direction}PauseCtrlPhy", frames)
    if not is_on:
        return 0
    counters.add(f"{direction}_global_pause", frames)
    counters.add(f"{direction}_global_pause_duration", frames * 4)
    if direction == "rx":
        counters.add("rx_global_pause_transition", frames // 2)
    return frames


def pause_counters(nic: Nic, dcb: Dcb, pause: Pause) -> dict[str, int]:
    """Return the pause counters that the driver shows: of the mode that runs, and those of the wire."""
    names = ["rxPauseCtrlPhy", "txPauseCtrlPhy", "txPauseStormWarningEvents", "txPauseStormErrorEvents"]
    if pause.rx:
        names += ["rx_global_pause", "rx_global_pause_duration", "rx_global_pause_transition"]
    if pause.tx:
        names += ["tx_global_pause", "tx_global_pause_duration"]
    names += [f"rx_prio{priority}_pause" for priority in PRIORITIES if dcb.rx >> priority & 1]
    names += [f"tx_prio{priority}_pause" for priority in PRIORITIES if dcb.tx >> priority & 1]
    return {name: nic.counters.get(name) for name in names}
