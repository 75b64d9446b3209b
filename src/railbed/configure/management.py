"""Refuses changes that would cut the network path over which railbed reaches the device."""

from __future__ import annotations

import re
import shlex

from railbed.model.fix import ConfigStep, Fix, RunStep
from railbed.probes import ip_addr, ssh_session
from railbed.rules.site import NodeView

_CUTS = re.compile(
    r"(?:no )?(?:interface (?:mgmt|vlan)|vrf (?:context|member)|line (?:vty|console)|default )"
    r"|(?:no )?(?:ssh|feature (?:ssh|interface-vlan)|username|aaa|switchport|channel-group|mac access-|control-plane)\b"
    r"|(?:no )?ipv?6? (?:address|route|access-\w+)\b|no (?:vlan|interface)\b|shutdown\b",
    re.IGNORECASE,
)
"""Lines that change how a switch is reached; no fix needs them."""


def management_cut(node: NodeView, fix: Fix) -> str:
    """Return how a fix would cut the path; empty if it does not, or if railbed runs on the node itself."""
    session = node.try_read(ssh_session.PROBE)
    if session is None or session.address is None:
        return ""
    addresses = node.try_read(ip_addr.PROBE)
    netdevs = [session.netdev] if session.netdev else []
    if addresses:
        netdevs += [
            name for name, owned in addresses.interfaces.items() if session.address in {item.address for item in owned}
        ]
    for step in fix.apply:
        words = _words(step.command) if isinstance(step, RunStep) else []
        if words[:3] in (["ip", "addr", "del"], ["ip", "address", "del"]) and _address(words) == session.address:
            return f"refused: railbed reaches {node.name} at {session.address}, which this would remove"
        if words[:3] == ["ip", "link", "set"] and "down" in words and set(words) & set(netdevs):
            return f"refused: railbed reaches {node.name} through {netdevs[0]}, which this would turn off"
    return ""


def switch_cut(fix: Fix) -> str:
    """Return which line of a switch's configuration would cut the path to it; empty if none does."""
    lines = [line for step in fix.apply if isinstance(step, ConfigStep) for line in step.lines]
    cutting = next((line.strip() for line in lines if _CUTS.match(line.strip())), "")
    return f"refused: `{cutting}` would cut the path to {fix.device}" if cutting else ""


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _address(words: list[str]) -> str:
    return words[3].partition("/")[0] if len(words) > 3 else ""
