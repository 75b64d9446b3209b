"""Into which QoS group a port puts a DSCP, and how to change that."""

from __future__ import annotations

from railbed.check.shared.nexus import lines
from railbed.check.shared.nexus.qos import SwitchQos, port_name_of
from railbed.model.fix import Fix, configure_lines
from railbed.rules.site import SwitchPortView


def classified(qos: SwitchQos, port: SwitchPortView, dscp: int) -> tuple[int, str]:
    """Return the QoS group of a DSCP at a port, and a description of what decides it."""
    policy = qos.classification(port.port.name)
    item = qos.class_of_dscp(policy, dscp)
    if item is not None and policy is not None:
        group = item.qos_group or 0
        return group, f"DSCP {dscp} in QoS group {group} ({policy.name}, class {item.name})"
    if policy is None:
        return 0, "no qos policy"
    named = [
        match for entry in policy.classes if (matched := qos.running.class_map(entry.name)) for match in matched.matches
    ]
    return 0, f"{policy.name} does not match DSCP {dscp}{f', only {named[0]}' if len(named) == 1 else ''}"


def set_group(qos: SwitchQos, port: SwitchPortView, name: str, dscp: int, group: int) -> tuple[Fix | None, str]:
    """Return the fix that puts a DSCP into a group, or advice if one of the site's classes has to be split."""
    policy = qos.classification(port.port.name)
    item = qos.class_of_dscp(policy, dscp)
    matched = qos.running.class_map(item.name) if item else None
    if item and policy and matched and matched.dscps != {dscp}:
        others = "other DSCPs" if len(matched.dscps) > 2 else f"DSCP {min(matched.dscps - {dscp})}"
        return None, (
            f"class {item.name} of {policy.name} also has {others}: "
            f"put DSCP {dscp} into a separate class before it, with `set qos-group {group}`"
        )
    return configure_lines(port.switch.name, *lines.classify(qos, port_name_of(port), name, dscp, group)), ""
