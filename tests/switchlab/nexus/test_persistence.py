"""Saving, checkpoints, rollback, reload."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from switchlab.nexus.commands.loader import apply_lines, boot, parse_config
from switchlab.nexus.model.patch import patch
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.render import render, running_blocks
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.session import Session
from tests.switchlab.nexus.support import LOSSLESS, refuse, run


def agree(session: Session, command: str, answer: str = "y") -> str:
    reply = session.execute(command)
    assert reply.question is not None
    return session.answer(reply.question, answer).text


def test_saved_configuration_survives_a_reload(session: Session, switch: Switch) -> None:
    run(session, "conf t", "hostname leaf1", "interface e1/1", "mtu 9216", "end", "copy running-config startup-config")
    saved = switch.running_text()
    run(session, "conf t", "interface e1/1", "no mtu", "end")
    switch.add("Ethernet1/1", "fcs", 5)
    agree(session, "reload")
    assert switch.running_text() == saved
    assert switch.ports["Ethernet1/1"].errors["fcs"] == 0
    assert session.context.closing


def test_questions_default_to_no(session: Session, switch: Switch) -> None:
    run(session, "copy running-config startup-config", "conf t", "hostname other", "end")
    for answer in ("", "n", "x"):
        agree(session, "reload", answer)
        agree(session, "write erase", answer)
    assert switch.running.hostname == "other"
    assert switch.startup is not None
    agree(session, "write erase")
    assert switch.startup is None


def test_dont_ask_answers_yes(session: Session, switch: Switch) -> None:
    run(session, "copy running-config startup-config", "terminal dont-ask", "write erase")
    assert switch.startup is None


def test_state_is_kept_in_a_folder(tmp_path: Path) -> None:
    first = Switch(PLATFORMS["n9k"], tmp_path)
    run(Session(first), "conf t", "vlan 20", "name storage", "end", "checkpoint before", "copy run start")
    run(Session(first), "checkpoint why description before the change of ada")
    second = Switch(PLATFORMS["n9k"], tmp_path)
    assert boot(second) == []
    assert second.running_text() == first.running_text()
    assert second.checkpoints["before"].text == first.checkpoints["before"].text
    assert "Description: before the change of ada\n" in run(Session(second), "show checkpoint summary")
    run(Session(second), "no checkpoint before", "no checkpoint why")
    assert Switch(PLATFORMS["n9k"], tmp_path).checkpoints == {}


def test_rollback_restores_every_line(lossless: Switch) -> None:
    session = Session(lossless)
    before = lossless.running_text()
    run(session, "checkpoint good", "conf t", "interface e1/1-2", "no priority-flow-control mode on", "no mtu")
    run(
        session,
        "no service-policy type qos input CLASSIFY",
        "system qos",
        "no service-policy type queuing output EGRESS",
    )
    run(session, "no policy-map type queuing EGRESS", "vlan 99", "end")
    patch_text = run(session, "show diff rollback-patch running-config checkpoint good")
    assert "\nno vlan 99\n" in patch_text
    assert "  service-policy type queuing output EGRESS" in patch_text
    assert "Rollback completed successfully." in run(session, "rollback running-config checkpoint good atomic")
    assert lossless.running_text() == before
    assert "Rollback Patch is Empty" in run(session, "rollback running-config checkpoint good")


def test_checkpoint_errors(session: Session) -> None:
    assert "does not exist" in refuse(session, "rollback running-config checkpoint missing")
    assert "Invalid checkpoint name" in refuse(session, "checkpoint ../../etc/passwd")
    run(session, "checkpoint one")
    assert "already exists" in refuse(session, "checkpoint one")
    for _ in range(9):
        run(session, "checkpoint")
    assert "Maximum number" in refuse(session, "checkpoint eleven")
    assert "user-checkpoint-9" in run(session, "show checkpoint summary")
    run(session, "clear checkpoint database", "checkpoint eleven")


def test_a_session_survives_the_removal_of_what_it_configures(lossless: Switch) -> None:
    first, second = Session(lossless), Session(lossless)
    run(second, "checkpoint empty", "conf t", "policy-map type qos NEW", "class class-default")
    run(first, "rollback running-config checkpoint empty", "conf t", "no interface loopback1")
    assert "ERROR" in refuse(second, "set qos-group 1")


LINES = [line for line in LOSSLESS.splitlines() if line]
LINES += ["vlan 5", "name storage", "vlan 7-9", "hostname leaf1", "feature nxapi", "feature interface-vlan"]
LINES += [
    "interface vlan 5",
    "no shutdown",
    "switchport mode trunk",
    "no switchport",
    "no feature lldp",
    "lldp timer 9",
]


@settings(max_examples=30)
@example(["interface Ethernet1/1", "mtu 9216"], ["priority-flow-control watch-dog-interval on"])
@given(st.lists(st.sampled_from(LINES), max_size=60), st.lists(st.sampled_from(LINES), max_size=60))
def test_a_patch_leads_from_one_configuration_to_another(first: list[str], second: list[str]) -> None:
    """Whatever was configured, a rendered configuration reads back the same, and patches apply without an error."""
    platform = PLATFORMS["n9k"]
    source, target = (parse_config(platform, "\n".join(lines))[0] for lines in (first, second))
    text = render(running_blocks(target))
    again, rejected = parse_config(platform, text)
    assert (render(running_blocks(again)), rejected) == (text, [])
    switch = Switch(platform)
    switch.running = source
    assert apply_lines(switch, patch(running_blocks(source), running_blocks(target))) == []
    assert {line for block in running_blocks(switch.running) for line in block.lines()} == {
        line for block in running_blocks(target) for line in block.lines()
    }


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_factory_configuration_reads_back(name: str) -> None:
    switch = Switch(PLATFORMS[name])
    config, rejected = parse_config(switch.platform, switch.running_text())
    assert rejected == []
    assert render(running_blocks(config)) == switch.running_text()
