"""Judging the light of a module against the module's own limits, for a node's port and for a switch's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railbed.check.shared.port import some
from railbed.parsing.optics import LaneLight, OpticalModule
from railbed.rules.judgement import Judgement, fail, ok, skip, warn

EXPECTED = "light within the module's own limits"
DARK = -30.0
"""dBm from which on down there is no light, whatever the module's limits are."""
SPREAD = 3.0
"""dB by which the lanes of a healthy module differ at most."""
NO_LIGHT_REMEDY = (
    "look at the fibre, whether the other end sends (its port may be shut), and whether transmit meets receive"
)
WEAK_REMEDY = "clean both ends of the fibre and reseat the module; then try another fibre and another module"
STRONG_REMEDY = "use an attenuator, or modules for this distance"
SILENT_REMEDY = "reseat the module, then replace it: none of its values can be trusted"
LOSS = "rx loss of signal"


def judge_module(module: OpticalModule, *, up: bool) -> Judgement:
    """Judge what a module measures; `up` is whether its link is."""
    evidence = _describe_all(module)
    if module.is_silent:
        return warn("the module's memory answers with ones only", expected=EXPECTED, remedy=SILENT_REMEDY)
    if not module.lanes:
        return skip("the cable or module does not measure light", expected=EXPECTED)
    dark = [number for number, lane in enumerate(module.lanes, start=1) if _is_dark(lane, module, up=up)]
    if dark:
        lanes = "" if len(module.lanes) == 1 else f" on lane {some(map(str, dark), 8)} of {len(module.lanes)}"
        laser = ", and its own laser is off" if all(map(_is_off, module.lanes)) else ""
        verdict = warn if up and len(dark) == len(module.lanes) else fail
        return verdict(f"no light arrives{lanes}{laser}", expected=EXPECTED, remedy=NO_LIGHT_REMEDY, evidence=evidence)
    if all(lane.rx_dbm is None and lane.tx_dbm is None for lane in module.lanes):
        return skip("the cable or module does not measure light", expected=EXPECTED)
    return _judge_power(module, evidence)


def _judge_power(module: OpticalModule, evidence: str) -> Judgement:
    objections = list(_objections(module))
    alarms = [text for text, kind in objections if kind.endswith("alarm")]
    if objections:
        texts = alarms or [text for text, _ in objections]
        is_strong = all("high" in kind for _, kind in objections)
        remedy = STRONG_REMEDY if is_strong else WEAK_REMEDY
        return (fail if alarms else warn)(some(texts, 2), expected=EXPECTED, remedy=remedy, evidence=evidence)
    levels = [lane.rx_dbm for lane in module.lanes if lane.rx_dbm is not None]
    if levels and max(levels) - min(levels) > SPREAD:
        observed = f"receives {min(levels):g} dBm on one lane and {max(levels):g} on another"
        return warn(observed, expected=EXPECTED, remedy=WEAK_REMEDY, evidence=evidence)
    return ok(expected=EXPECTED, observed=_describe(module.lanes), evidence=evidence)


def _is_dark(lane: LaneLight, module: OpticalModule, *, up: bool) -> bool:
    if lane.rx_dbm is None:
        # Some switches write N/A for a power that is too low to be measured, others for one that they do not measure.
        return LOSS in lane.flags or ("rx_low_alarm" in module.limits and not up)
    return lane.rx_dbm <= DARK or LOSS in lane.flags


def _is_off(lane: LaneLight) -> bool:
    return lane.bias_ma == 0 or (lane.tx_dbm is not None and lane.tx_dbm <= DARK)


def _objections(module: OpticalModule) -> Iterator[tuple[str, str]]:
    """Yield each power outside a limit with the kind of limit, for each lane the worst of each direction."""
    for number, lane in enumerate(module.lanes, start=1):
        where = f"lane {number}: " if len(module.lanes) > 1 else ""
        for direction, power, verb in (("rx", lane.rx_dbm, "receives"), ("tx", lane.tx_dbm, "sends")):
            kind = _worst(direction, power, lane.flags, module.limits)
            if kind and not (direction == "tx" and _is_off(lane)):
                limit = module.limits.get(f"{direction}_{kind.replace(' ', '_')}")
                shown = f"{power:g} dBm" if power is not None else "an unknown power"
                beyond = f" ({limit:g})" if limit is not None else ""
                yield f"{where}{verb} {shown}, {kind}{beyond}", kind


def _worst(direction: str, power: float | None, flags: Iterable[str], limits: dict[str, float]) -> str:
    for level in ("alarm", "warning"):
        for side in ("low", "high"):
            kind = f"{side} {level}"
            limit = limits.get(f"{direction}_{side}_{level}")
            is_beyond = power is not None and limit is not None and (power < limit if side == "low" else power > limit)
            if is_beyond or f"{direction} power {kind}" in flags:
                return kind
    return ""


def _describe(lanes: Iterable[LaneLight]) -> str:
    texts = []
    for name, values in (
        ("receives", [lane.rx_dbm for lane in lanes if lane.rx_dbm is not None]),
        ("sends", [lane.tx_dbm for lane in lanes if lane.tx_dbm is not None]),
    ):
        if values:
            low, high = min(values), max(values)
            texts.append(f"{name} {low:g} dBm" if low == high else f"{name} {low:g} to {high:g} dBm")
    return ", ".join(texts)


def _describe_all(module: OpticalModule) -> str:
    names = " ".join(filter(None, (module.vendor, module.part, module.type, module.serial)))
    lines = [names] if names else []
    for number, lane in enumerate(module.lanes, start=1):
        flags = f", {', '.join(lane.flags)}" if lane.flags else ""
        lines.append(f"lane {number}: receives {lane.rx_dbm} dBm, sends {lane.tx_dbm} dBm{flags}")
    return "\n".join(lines)
