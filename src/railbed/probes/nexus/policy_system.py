"""The system-wide policies of a Nexus (`show policy-map system`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import read_object
from railbed.parsing.nexus.policies import Attachment, attachments_of_json, attachments_of_text
from railbed.parsing.nexus.qos import PolicyMap


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPolicies(TextFacts):
    """The policies in force on ports without their own, including the switch's defaults."""

    network_qos: PolicyMap | None = None
    qos_input: PolicyMap | None = None
    queuing_input: PolicyMap | None = None
    queuing_output: PolicyMap | None = None


def parse(text: str) -> SystemPolicies:
    """Read both forms."""
    fields, lines = read_object(text), Lines(text)
    attachments = attachments_of_json(fields) if fields else attachments_of_text(lines)
    lines.require(attachments, "no policy, not even a default")
    return SystemPolicies(
        network_qos=_policy(attachments, "network-qos", ""),
        qos_input=_policy(attachments, "qos", "input"),
        queuing_input=_policy(attachments, "queuing", "input"),
        queuing_output=_policy(attachments, "queuing", "output"),
        not_understood=lines.not_understood,
    )


def _policy(attachments: Iterable[Attachment], kind: str, direction: str) -> PolicyMap | None:
    matching = (item.policy for item in attachments if (item.policy.type, item.direction) == (kind, direction))
    return next(matching, None)


PROBE = Probe(
    name="nexus_policy_system",
    title="system-wide policies of a Nexus",
    command="show policy-map system | json\nshow policy-map system",
    parse=parse,
    facts=SystemPolicies,
    runs_on="switch",
    one_line=True,
)
