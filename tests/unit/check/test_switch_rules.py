"""Rules about switches on the emulated Nexus: their findings, and that their fixes repair it."""

from __future__ import annotations

from functools import cache

import pytest
from tests.support.nexus import cluster, connected, judged, readings, repair, verdicts
from tests.switchlab.nexus.support import FIXTURES, LOSSLESS

from railbed.model.fix import ConfigStep
from railbed.model.record import Finding, Verdict
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.platform import PLATFORMS

WRONG = (Verdict.FAIL, Verdict.WARN, Verdict.UNKNOWN)


def wrong(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.check, finding.subject, finding.observed) for finding in findings if finding.verdict in WRONG]


@cache
def findings_about_a_factory_switch(platform: str) -> list[Finding]:
    return judged(connected(platform))


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_the_fixes_of_a_factory_switch_make_it_lossless(platform: str) -> None:
    switch = connected(platform)
    findings = findings_about_a_factory_switch(platform)
    assert {"switch_pfc", "switch_network_qos", "switch_dscp", "switch_cnp"} <= {
        check for check, _, _ in wrong(findings)
    }
    assert all(finding.fix for finding in findings if finding.verdict is Verdict.FAIL)
    assert repair(switch, findings) == []
    assert wrong(judged(switch)) == []


@pytest.mark.parametrize(("platform", "priority"), [("n9k", 1), ("n9k", 7), ("n9k-ale", 2), ("n9k-ale", 6)])
def test_any_priority_can_be_lossless(platform: str, priority: int) -> None:
    wanted = cluster(priority=priority, dscp=8 * priority + 2)
    switch = connected(platform)
    assert repair(switch, judged(switch, wanted)) == []
    assert wrong(judged(switch, wanted)) == []


@pytest.mark.parametrize(
    "removed",
    [
        "interface Ethernet1/2\n  no priority-flow-control mode",
        "interface Ethernet1/2\n  no priority-flow-control watch-dog-interval",
        "interface Ethernet1/2\n  no service-policy type qos input RAILBED-CLASSIFY",
        "interface Ethernet1/2\n  no mtu",
        "no priority-flow-control watch-dog-interval",
        "class-map type qos match-any RAILBED-ROCE\n  no match dscp 26",
        "policy-map type qos RAILBED-CLASSIFY\n  no class RAILBED-CNP",
        "policy-map type network-qos RAILBED-NETWORK\n  class type network-qos c-8q-nq3\n    no pause",
        "policy-map type queuing RAILBED-EGRESS\n  class type queuing c-out-8q-q3\n    no random-detect",
        "system qos\n  no service-policy type network-qos RAILBED-NETWORK",
        "interface Ethernet1/2\n  no service-policy type queuing output RAILBED-EGRESS",
    ],
)
def test_a_line_that_someone_removed_is_found_and_comes_back(removed: str) -> None:
    switch = connected("n9k")
    repair(switch, findings_about_a_factory_switch("n9k"))
    assert apply_lines(switch, removed.splitlines()) == []
    findings = judged(switch)
    assert wrong(findings)
    assert repair(switch, findings) == []
    assert wrong(judged(switch)) == []


def test_policies_of_the_site_are_completed_and_stay() -> None:
    switch = connected("n9k", LOSSLESS.replace(" ecn\n", "\n").replace("match dscp 26", "match cos 3"))
    findings = judged(switch)
    assert {check for check, _, _ in wrong(findings)} == {"switch_dscp", "switch_ecn"}
    lines = [line for finding in findings if finding.fix for step in finding.fix.apply for line in _lines(step)]
    assert not any(line.strip().startswith(("no ", "service-policy")) for line in lines)
    assert repair(switch, findings) == []
    assert wrong(judged(switch)) == []
    assert not {"RAILBED-CLASSIFY", "RAILBED-EGRESS"} & {name for _, name in switch.running.policy_maps}


def _lines(step: object) -> tuple[str, ...]:
    assert isinstance(step, ConfigStep)
    return step.lines


def test_counters_that_increase_are_found() -> None:
    switch = connected("n9k", LOSSLESS)
    before = readings(switch)
    switch.add("Ethernet1/2", "drop_packets", 4, group=3)
    switch.add("Ethernet1/1", "pfc_rx", 9, priority=3)
    growth = {subject: observed for check, subject, observed in wrong(judged(switch, before=before))}
    assert growth == {"s1/Ethernet1/1": "pauses received +9", "s1/Ethernet1/2": "no-drop queue drops +4"}


PUBLISHED: list[tuple[str, str, set[str], set[str]]] = [
    ("cisco_reference.cfg", "n9k-400g", set(), set()),
    ("cisco_reference.cfg", "n9k", {"switch_ecn"}, set()),
    (
        "microsoft_reference.cfg",
        "n9k-400g",
        {"switch_cnp", "switch_dscp", "switch_mtu", "switch_pfc", "switch_watchdog"},
        {"switch_cnp"},
    ),
]
"""Configuration, platform, the rules that fail, and those whose change is left to a person."""


@pytest.mark.shared
@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")
def test_every_published_configuration_is_judged() -> None:
    assert {config for config, *_ in PUBLISHED} == {path.name for path in (FIXTURES / "config").glob("*.cfg")}


@pytest.mark.shared
@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")
@pytest.mark.parametrize(("config", "platform", "lacking", "by_hand"), PUBLISHED)
def test_published_configurations_are_lossless_or_the_findings_name_what_is_missing(
    config: str, platform: str, lacking: set[str], by_hand: set[str]
) -> None:
    ports = "1/1-32" if platform == "n9k-400g" else "1/1-48"
    switch = connected(platform, (FIXTURES / "config" / config).read_text().replace("1/1-48", ports))
    findings = judged(switch)
    assert {check for check, _, _ in wrong(findings)} == lacking
    repair(switch, findings)
    repaired = judged(switch)
    assert verdicts(repaired).keys() == verdicts(findings).keys()
    assert {check for check, _, _ in wrong(repaired)} == by_hand
