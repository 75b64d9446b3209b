"""Offloads of every interface: segmentation, checksums, receive merging (`ethtool -k IF`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface, on_or_off, without_title

TITLES = ("Features for ", "Offload parameters for ")
STATE = re.compile(r"^(on|off)(?: \[(fixed|requested on|requested off|not requested)\])?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One offload."""

    on: bool
    fixed: bool = False
    """The driver does not let it be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features(TextFacts):
    """Offloads by interface, then by name, such as `tcp-segmentation-offload`."""

    interfaces: dict[str, dict[str, Feature]]


def parse(text: str) -> Features:
    """Read `ethtool -k IF` of one or many interfaces."""
    lines = Lines(text)
    interfaces = {name: _features(without_title(body, TITLES, lines), lines) for name, body in answers(lines)}
    lines.require_known("expected `Features for …`")
    return Features(interfaces=interfaces, not_understood=lines.not_understood)


def _features(body: list[str], lines: Lines) -> dict[str, Feature]:
    features: dict[str, Feature] = {}
    members: dict[str, list[Feature]] = {}
    group = ""
    for line in body:
        name, colon, value = line.partition(":")
        state = STATE.match(value.strip())
        if not colon or not state:
            lines.unknown(line)
            continue
        name = name.strip()
        feature = Feature(on=on_or_off(state.group(1)), fixed=state.group(2) == "fixed")
        features[name] = feature
        if line[0].isspace():
            members.setdefault(group, []).append(feature)
        else:
            group = name
    # ethtool marks only the members of a group as fixed.
    fixed_groups = {name for name, parts in members.items() if name and all(part.fixed for part in parts)}
    return {
        name: replace(feature, fixed=True) if name in fixed_groups else feature for name, feature in features.items()
    }


PROBE = Probe(
    name="ethtool_features",
    title="offloads: segmentation, checksums, receive merging",
    command=for_each_interface('ethtool -k "$name"'),
    parse=parse,
    facts=Features,
    tool="ethtool",
    package="ethtool",
)
