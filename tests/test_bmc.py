"""BMCs as people use them: real IPMI (ipmi_sim and ipmitool), Redfish over TLS, a power cycle on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bmcs import (
    PASSWORD,
    RESET,
    USER,
    V1,
    RedfishBmc,
    RunningBmc,
    ipmi_bmc,
    machine,
    missing_ipmi_tools,
    redfish_bmc,
)
from tests.support.cli import Result, railbed

RULES = ("bmc_reachable", "bmc_power", "bmc_sensors", "bmc_power_supply", "bmc_memory", "bmc_events")
DEAD = "127.0.0.2"
"""Nothing listens on this port there."""
CLUSTER = """\
name: site
bmc: {{user: {user}, password: {{env: BMC_PASSWORD}}, access: {access}{more}}}
nodes:
  n1:
    host: {host}
    login: {{port: 9}}
    bmc: {{host: 127.0.0.1, port: {port}{own}}}
"""
UNCORRECTABLE = "sel_add 0x20 2 0 0 0 0 0x20 0x00 4 0x0c 9 0x6f 0xa1 0xff 0xff"
SUPPLY_FAILED = "sensor_set_bit 0x20 0 2 1 1 0"
TOO_HOT = "sensor_set_bit 0x20 0 1 4 1 0"


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BMC_PASSWORD", PASSWORD)
    return folder


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[RunningBmc]:
    if missing := missing_ipmi_tools():
        pytest.skip(f"needs {missing}")
    with ipmi_bmc(tmp_path, celsius=95, more=f"{UNCORRECTABLE}\n{SUPPLY_FAILED}\n{TOO_HOT}") as running:
        yield running


@pytest.fixture
def redfish(tmp_path: Path) -> Iterator[RedfishBmc]:
    with redfish_bmc(tmp_path / "tls") as running:
        yield running


def write_ipmi(bmc: RunningBmc, host: str = "local") -> None:
    text = CLUSTER.format(user=USER, access="ipmi", more=", cipher_suite: 3", host=host, port=bmc.port, own="")
    Path("cluster.yaml").write_text(text)


def write_redfish(bmc: RedfishBmc, host: str = "local", *, pinned: bool = True) -> None:
    own = f', fingerprint: "{bmc.fingerprint}"' if pinned else ""
    text = CLUSTER.format(user=USER, access="redfish", more="", host=host, port=bmc.port, own=own)
    Path("cluster.yaml").write_text(text)


def run(*arguments: str) -> Result:
    # With a cache of its own, no other test holds the locks of these addresses.
    cache, password = str(Path.cwd() / "cache"), os.environ["BMC_PASSWORD"]
    return railbed(Path.cwd(), *arguments, RAILBED_CACHE=cache, BMC_PASSWORD=password, PATH=os.environ["PATH"])


def check(*arguments: str) -> dict[str, dict[str, str]]:
    result = run("check", *(arguments or RULES), "--json")
    return {finding["check"]: finding for finding in result.findings}


def verdicts(findings: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: finding["verdict"] for name, finding in findings.items()}


def test_a_real_ipmi_bmc_is_read_and_its_faults_are_findings(bmc: RunningBmc, site: Path) -> None:
    write_ipmi(bmc)
    findings = check()
    assert verdicts(findings) == {
        "bmc_reachable": "ok",
        "bmc_power": "ok",
        "bmc_sensors": "fail",
        "bmc_power_supply": "fail",
        "bmc_memory": "fail",
        "bmc_events": "ok",
    }
    assert findings["bmc_sensors"]["observed"] == "CPU1 Temp 95 degrees C (critical)"
    assert "Uncorrectable ECC" in findings["bmc_memory"]["observed"]
    assert findings["bmc_power_supply"]["subject"] == "n1:bmc"
    assert not bmc.requests  # only read
    recorded = [file for file in site.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()]
    assert recorded == []


def test_the_password_is_neither_an_argument_nor_in_the_environment_of_ipmitool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Path
) -> None:
    """A program in place of ipmitool writes down all that others could read of it in /proc, and the password it got."""
    tools = tmp_path / "tools"
    tools.mkdir()
    spy = tools / "ipmitool"
    spy.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"out = {str(tmp_path)!r}\n"
        "open(out + '/cmdline', 'wb').write(open('/proc/self/cmdline', 'rb').read())\n"
        "open(out + '/environ', 'wb').write(open('/proc/self/environ', 'rb').read())\n"
        "open(out + '/given', 'w').write(open(sys.argv[sys.argv.index('-f') + 1]).read())\n"
        "print('System Power : on')\n"
    )
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("IPMI_PASSWORD", "of-another-tool")
    text = CLUSTER.format(user=USER, access="ipmi", more="", host="local", port=623, own="")
    Path("cluster.yaml").write_text(text)
    assert verdicts(check("bmc_power")) == {"bmc_power": "ok"}
    assert (tmp_path / "given").read_text() == f"{PASSWORD}\n"
    arguments = (tmp_path / "cmdline").read_bytes()
    assert b"-L\0USER\0" in arguments
    for shown in (arguments, (tmp_path / "environ").read_bytes()):
        assert PASSWORD.encode() not in shown
        assert b"of-another-tool" not in shown
    assert not [file for file in site.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()]


def test_a_wrong_password_and_a_silent_bmc_are_a_warning_in_one_sentence(
    bmc: RunningBmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ipmi(bmc)
    monkeypatch.setenv("BMC_PASSWORD", "wrong")
    wrong = check("bmc_reachable")["bmc_reachable"]
    assert wrong["verdict"] == "warn"
    assert (
        "refused the login of railbed with the password from the environment variable BMC_PASSWORD" in wrong["observed"]
    )
    Path("cluster.yaml").write_text(Path("cluster.yaml").read_text().replace(f"port: {bmc.port}", "port: 9"))
    silent = check("bmc_reachable", "hostname_unique")
    assert silent["bmc_reachable"]["observed"] == "no IPMI session with 127.0.0.1 port 9"
    assert silent["hostname_unique"]["verdict"] != "unknown"


def test_redfish_gives_the_same_kinds_of_findings(redfish: RedfishBmc, tmp_path: Path) -> None:
    write_redfish(redfish)
    rules = (*RULES, "hostname_unique")
    findings = check(*rules, "--record", str(tmp_path / "recording"))
    assert verdicts(findings)["bmc_reachable"] == "ok"
    assert verdicts(findings)["bmc_sensors"] == "ok"
    assert findings["bmc_power_supply"]["observed"] == "PSU 2 Enabled LossOfInput (critical)"
    assert not redfish.posted
    assert len(redfish.requests) == len(set(redfish.requests)) + 1  # the root twice: the login reads it, too
    replayed = run("check", *rules, "--json", "--replay", str(tmp_path / "recording"))
    assert {finding["check"]: finding["observed"] for finding in replayed.findings} == {
        name: finding["observed"] for name, finding in findings.items()
    }


def test_an_unknown_certificate_gets_no_password_and_shows_its_fingerprint(redfish: RedfishBmc) -> None:
    write_redfish(redfish, pinned=False)
    finding = check("bmc_reachable")["bmc_reachable"]
    assert finding["verdict"] == "warn"
    assert redfish.fingerprint in finding["remedy"]
    assert "`bmc: {fingerprint: …}`" in finding["remedy"]
    write_redfish(redfish)
    other = redfish.fingerprint[:-2] + ("00" if redfish.fingerprint[-2:] != "00" else "11")
    Path("cluster.yaml").write_text(Path("cluster.yaml").read_text().replace(redfish.fingerprint, other))
    finding = check("bmc_reachable")["bmc_reachable"]
    assert "is not the one in the cluster file: its fingerprint is " + redfish.fingerprint in finding["observed"]
    assert not redfish.requests
    assert not redfish.refused


def test_a_power_cycle_is_shown_first_and_made_only_with_a_yes(bmc: RunningBmc) -> None:
    write_ipmi(bmc, DEAD)
    shown = run("configure", "--power-cycle", "n1")
    assert shown.code == 1
    assert "power on, n1 does not answer → off and on again" in " ".join(shown.out.split())
    refused = run("configure", "--power-cycle", "n1", "--apply")
    assert (refused.code, bmc.requests) == (2, [])
    assert "there is no terminal to ask on" in refused.err
    made = run("configure", "--power-cycle", "n1", "--apply", "--yes")
    assert made.code == 0, made.err
    assert "n1 was switched off and on again" in " ".join(made.out.split())
    assert "--undo" not in made.out
    assert bmc.requests == ["power 0", "power 1"]
    bmc.set_power("off")
    started = run("configure", "--power-cycle", "n1", "--apply", "--yes", "--json")
    changes = [record for record in started.records if record["kind"] == "change"]
    assert [(change["before"], change["after"]) for change in changes] == [("power off, n1 does not answer", "on")]
    assert (started.code, bmc.power) == (0, "on")


def test_a_power_cycle_over_redfish_uses_what_the_system_offers(redfish: RedfishBmc) -> None:
    write_redfish(redfish, DEAD)
    assert run("configure", "--power-cycle", "n1", "--apply", "--yes").code == 0
    assert redfish.posted == [(RESET, {"ResetType": "PowerCycle"})]
    offered = redfish.resources[f"{V1}/Systems/1"]["Actions"]["#ComputerSystem.Reset"]
    offered["ResetType@Redfish.AllowableValues"] = ["GracefulShutdown"]
    refused = run("configure", "--power-cycle", "n1", "--apply", "--yes")
    assert refused.code == 1
    assert "does not offer PowerCycle or ForceRestart" in " ".join(refused.out.split())
    assert len(redfish.posted) == 1


def test_the_wrong_machine_is_never_power_cycled(redfish: RedfishBmc) -> None:
    """This machine answers while the BMC reports power off: it is not its BMC."""
    redfish.resources = machine("Off")
    write_redfish(redfish)
    finding = check("bmc_power", "hostname_unique")["bmc_power"]
    assert finding["observed"] == "power off, although n1 answers: it is the BMC of another machine"
    left = run("configure", "--power-cycle", "n1", "--apply", "--yes")
    assert left.code == 1
    assert "railbed itself runs on this machine" in " ".join(left.out.split())
    assert not redfish.posted


def test_a_node_without_a_bmc_is_refused_by_name() -> None:
    Path("cluster.yaml").write_text("name: site\nnodes: {n1: {host: local}}\n")
    for node, reason in (("n1", "the cluster file has no BMC of n1"), ("n2", "the cluster file has no such node")):
        result = run("configure", "--power-cycle", node)
        assert result.code == 2
        assert reason in result.err


def test_the_bmc_of_a_node_that_does_not_answer_gives_the_reason(redfish: RedfishBmc) -> None:
    redfish.resources = machine("Off")
    write_redfish(redfish, DEAD)
    result = run("check", "reachable", "bmc_power", "bmc_events", "--json")
    assert result.code == 3
    observed = next(finding["observed"] for finding in result.findings if finding["check"] == "reachable")
    assert "; its BMC reports power off, in its event log 2026-11-18 08:00 UTC: Memory: Correctable ECC" in observed


def test_nothing_of_a_bmc_stays_behind(bmc: RunningBmc) -> None:
    """ipmitool is ended with its command, also if the BMC is silent."""
    write_ipmi(bmc)
    check("bmc_power")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() if "ipmitool" in line and str(bmc.port) in line]
    assert json.loads(Path("runs").iterdir().__next__().joinpath("run.json").read_text())["verb"] == "check"
