"""Every policy of a Nexus (`show policy-map`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import read_object
from railbed.parsing.nexus.policies import attachments_of_json, attachments_of_text
from railbed.parsing.nexus.qos import PolicyMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies(TextFacts):
    """The policies that exist, built-in ones included, whether in force or not."""

    policies: tuple[PolicyMap, ...]


def parse(text: str) -> Policies:
    """Read both forms."""
    fields, lines = read_object(text), Lines(text)
    attachments = attachments_of_json(fields) if fields else attachments_of_text(lines)
    lines.require(attachments, "no policy, not even a built-in one")
    policies = tuple(attachment.policy for attachment in attachments)
    return Policies(policies=policies, not_understood=lines.not_understood)


PROBE = Probe(
    name="nexus_policy_map",
    title="policies of a Nexus, built-in ones included",
    command="show policy-map | json\nshow policy-map",
    parse=parse,
    facts=Policies,
    runs_on="switch",
    one_line=True,
)
