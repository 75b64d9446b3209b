"""Offloads of every interface: segmentation, checksums, receive merging (`ethtool -k IF`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.ports import answers, for_each_interface, key_and_value, on_or_off

TITLES = ("Features for ", "Offload parameters for ")
STATE = re.compile(r"^(on|off)(?: \[(fixed|requested on|requested off|not requested)\])?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One offload."""

    on: bool
    fixed: bool = False
    """The driver does not let it be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Offloads by interface, then by name, such as `tcp-segmentation-offload`."""

    interfaces: dict[str, dict[str, Feature]]


def parse(text: str) -> Features:
    """Read `ethtool -k IF` of one or many interfaces."""
    return Features(interfaces={name: _features(lines) for name, lines in answers(text)})


def _features(lines: list[str]) -> dict[str, Feature]:
    if lines and not lines[0].startswith(TITLES):
        raise ParseError("expected `Features for …`", line=lines[0])
    features: dict[str, Feature] = {}
    members: dict[str, list[Feature]] = {}
    group = ""
    for line in lines[1:]:
        name, feature = _feature(line)
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


def _feature(line: str) -> tuple[str, Feature]:
    name, value = key_and_value(line)
    match = STATE.match(value)
    if not match:
        raise ParseError("expected on or off", line=line)
    return name, Feature(on=on_or_off(match.group(1)), fixed=match.group(2) == "fixed")


PROBE = Probe(
    name="ethtool_features",
    title="offloads: segmentation, checksums, receive merging",
    command=for_each_interface('ethtool -k "$name"'),
    parse=parse,
    facts=Features,
    tool="ethtool",
    package="ethtool",
)
