"""Sentences with which NX-OS refuses a command, and output that only resembles them."""

from __future__ import annotations

import pytest

from railbed.parsing.nexus.refusals import refusal_of, refusal_within

REFUSALS = [
    "% Invalid command at '^' marker.",
    "%Not allowed in this mode",
    "ERROR: Policy-map x does not exist",
    "Error: Policy-map x does not exist",
    "command failed: port not compatible [port mode]",
    "Command failed: port is a member of port-channel10",
    "Syntax error while parsing 'show nothing'",
    'Module 1 returned status "TCAM region is not configured. Please configure TCAM region and retry"',
    'Unable to perform the action due to incompatibility:  Module 1 returned status "ACLQOS_ERROR: Invalid Class id"',
]


@pytest.mark.parametrize("sentence", REFUSALS)
def test_a_refusal_is_recognised(sentence: str) -> None:
    assert refusal_of(f"{sentence}\n") == sentence
    assert refusal_of(f"                ^\n{sentence}\n") == sentence
    assert refusal_within(f"Enter configuration commands, one per line.\n  {sentence}\nmore\n") == sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "interface Ethernet1/1\n  description Error: none seen\n",
        "Warning: Please save config and reload the system for the configuration to take effect\n",
        "Note: Applying config parallelly may fail Rollback verification\n",
        "Edge port type (portfast) should only be enabled on ports connected to a single host.\n",
        '{"error": "none"}',
    ],
)
def test_other_output_is_not_a_refusal(text: str) -> None:
    assert (refusal_of(text), refusal_within(text)) == ("", "")


def test_only_the_beginning_of_one_command_can_refuse_it() -> None:
    shown = "Ethernet1/1 is up\nERROR: counted on a line of its own\n"
    assert refusal_of(shown) == ""
    assert refusal_within(shown) == "ERROR: counted on a line of its own"
