"""The policies in force on each port of a Nexus (`show policy-map interface`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.policies import attachments_of_text
from railbed.parsing.nexus.qos import PolicyMap


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPolicies:
    """The policies in force on one port: its own and those of the system."""

    policies: dict[str, PolicyMap]
    """By type and direction: `qos input`, `queuing output`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePolicies(TextFacts):
    """Policies by port."""

    ports: dict[str, PortPolicies]


def parse(text: str) -> InterfacePolicies:
    """Read the text form; NX-OS has no JSON for this command."""
    ports: dict[str, dict[str, PolicyMap]] = {}
    lines = Lines(text)
    for attachment in attachments_of_text(lines):
        if attachment.port:
            place = f"{attachment.policy.type} {attachment.direction}"
            ports.setdefault(attachment.port, {})[place] = attachment.policy
    lines.require(ports, "no port with a policy")
    return InterfacePolicies(
        ports={name: PortPolicies(policies=policies) for name, policies in ports.items()},
        not_understood=lines.not_understood,
    )


PROBE = Probe(
    name="nexus_policy_interface",
    title="policies in force on each port of a Nexus",
    command="show policy-map interface",
    parse=parse,
    facts=InterfacePolicies,
    runs_on="switch",
)
