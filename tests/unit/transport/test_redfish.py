"""A BMC over Redfish that answers with anything: one sentence each, nothing goes to other hosts, other BMCs go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.support.bmcs import PASSWORD, RESET, USER, V1, RedfishBmc, link, machine, members, redfish_bmc

from railbed.errors import DeviceError, LoginRefused, Unreachable
from railbed.fleet import Fleet
from railbed.fleet.survey import read_facts
from railbed.model.cluster import Cluster
from railbed.model.reading import MAX_OUTPUT_BYTES, DeviceFacts, Known, Output, Unknown
from railbed.probes.bmc import log, power, sensors
from railbed.transport.base import Command, targets_of
from railbed.transport.bmc import redfish as transport
from railbed.transport.bmc.resources import is_own_path
from railbed.transport.connect import live_connector

SYSTEMS = Command(key="bmc_power", script="Systems/Members", timeout=5.0)


@pytest.fixture
def bmc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedfishBmc]:
    monkeypatch.setenv("BMC_PASSWORD", PASSWORD)
    with redfish_bmc(tmp_path) as running:
        yield running


def cluster_with(*bmcs: RedfishBmc, **own: Any) -> Cluster:
    nodes = {
        f"n{index}": {
            "host": "local",
            "bmc": {"host": "127.0.0.1", "port": bmc.port, "fingerprint": bmc.fingerprint, **own},
        }
        for index, bmc in enumerate(bmcs, 1)
    }
    shared = {"user": USER, "password": {"env": "BMC_PASSWORD"}}
    return Cluster.model_validate({"name": "site", "bmc": shared, "nodes": nodes})


async def run(bmc: RedfishBmc, *commands: Command, changing: bool = False, **own: Any) -> list[Output]:
    target = targets_of(cluster_with(bmc, **own), changing=changing)[-1]
    async with (
        live_connector() as connect,
        connect(target) as connection,
        aclosing(connection.run(commands)) as outputs,
    ):
        return [output async for output in outputs]


async def facts_of(*bmcs: RedfishBmc, timeout: float = 60.0) -> dict[str, DeviceFacts]:
    cluster = cluster_with(*bmcs)
    async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=timeout) as fleet:
        return await read_facts(fleet, cluster, (power.PROBE, sensors.PROBE, log.PROBE), only=cluster.bmcs())


def body(text: bytes) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, text


HOSTILE: list[tuple[str, tuple[int, dict[str, str], bytes], str]] = [
    ("text", body(b"<html>login</html>"), "is not a JSON object"),
    ("list", body(b"[1]"), "is not a JSON object"),
    ("deep", body(b"[" * 200_000), "is not a JSON object"),
    ("huge number", body(b'{"a": ' + b"9" * 5000 + b"}"), "is not a JSON object"),
    ("long line", body(b'{"a": "' + b"x" * 60_000), "is not a JSON object"),
    ("error", (500, {}, b"{}"), "answered HTTP 500 to GET /redfish/v1/Systems"),
    ("elsewhere", (302, {"Location": "https://192.0.2.1/redfish/v1/Systems"}, b""), "which is not followed"),
    ("same host", (308, {"Location": "/redfish/v1/Other"}, b""), "which is not followed"),
]


@pytest.mark.parametrize(("answer", "reason"), [pytest.param(*case[1:], id=case[0]) for case in HOSTILE])
async def test_an_answer_that_makes_no_sense_is_one_sentence(
    bmc: RedfishBmc, answer: tuple[int, dict[str, str], bytes], reason: str
) -> None:
    bmc.answers[f"{V1}/Systems"] = answer
    with pytest.raises(Unreachable) as raised:
        await run(bmc, SYSTEMS)
    assert reason in raised.value.message
    assert len(raised.value.message) < 300
    assert PASSWORD not in raised.value.message + raised.value.hint


async def test_a_refused_login_names_the_account_and_the_place_of_its_password(bmc: RedfishBmc) -> None:
    bmc.password = PASSWORD[::-1]
    with pytest.raises(
        LoginRefused, match="refused the login of railbed with the password from the environment variable"
    ):
        await run(bmc, SYSTEMS)


async def test_an_answer_without_an_end_is_cut_off(bmc: RedfishBmc) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(b" " * 65536)
        except OSError:
            pass

    bmc.answers[f"{V1}/Systems"] = endless
    [output] = await run(bmc, Command(key="bmc_power", script="Systems/Members", timeout=60.0))
    assert output.truncated
    assert output.excess(one_line=True) == f"printed more than {MAX_OUTPUT_BYTES // 2**20} MiB"


async def test_a_bmc_that_stops_in_its_answer_costs_only_its_own_facts(tmp_path: Path, bmc: RedfishBmc) -> None:
    def silent(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b'{"Members": [')
        request.wfile.flush()
        request.connection.recv(1)

    (tmp_path / "other").mkdir()
    bmc.answers[f"{V1}/Chassis/1/Thermal"] = silent
    with redfish_bmc(tmp_path / "other") as healthy:
        facts = await facts_of(bmc, healthy, timeout=6.0)
    assert all(isinstance(facts["n2:bmc"].read(probe), Known) for probe in (power.PROBE, sensors.PROBE, log.PROBE))
    late = facts["n1:bmc"].read(sensors.PROBE)
    assert isinstance(late, Unknown)
    assert "did not finish within 3 s" in late.reason or late.device_failed
    known = facts["n1:bmc"].read(power.PROBE)
    assert isinstance(known, Known)
    assert known.facts.power == "on"


async def test_links_lead_nowhere_but_to_this_server(bmc: RedfishBmc) -> None:
    bmc.resources[f"{V1}/Systems"] = members(
        "https://192.0.2.1/redfish/v1/Systems/1",
        "//192.0.2.1/redfish/v1/Systems/1",
        f"{V1}/Systems/1 HTTP/1.1\r\nX: y",
        f"{V1}/../../etc",
        f"{V1}/Systems/1",
    ) | {"Members": 5}
    [output] = await run(bmc, SYSTEMS)
    assert json.loads(output.text) == {}
    bmc.resources[f"{V1}/Systems"] = members("//192.0.2.1/redfish/v1/Systems/1", f"{V1}/Systems/1")
    [output] = await run(bmc, SYSTEMS)
    assert list(json.loads(output.text)) == [f"{V1}/Systems/1"]
    for path in (
        "https://192.0.2.1/redfish/v1/x",
        "//192.0.2.1/redfish/v1/x",
        f"{V1}/a b",
        f"{V1}/a\r\nb",
        f"{V1}/../x",
    ):
        assert not is_own_path(path)


async def test_a_circle_of_pages_and_a_service_of_many_resources_end(
    bmc: RedfishBmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_REQUESTS", 10)
    paths = [f"{V1}/Systems/{number}" for number in range(40)]
    bmc.resources |= {path: link(path) for path in paths}
    bmc.resources[f"{V1}/Systems"] = {**members(*paths), "Members@odata.nextLink": f"{V1}/Systems"}
    [output] = await run(bmc, SYSTEMS)
    assert len(bmc.requests) <= 11
    assert len(json.loads(output.text)) == 8


async def test_resources_that_are_linked_but_absent_are_left_out(bmc: RedfishBmc) -> None:
    """Many BMCs do so while the machine is off."""
    del bmc.resources[f"{V1}/Chassis/1/Thermal"], bmc.resources[f"{V1}/Systems/1/LogServices"]
    facts = (await facts_of(bmc))["n1:bmc"]
    read = facts.read(sensors.PROBE)
    assert isinstance(read, Known)
    assert [sensor.name for sensor in read.facts.sensors] == ["PSU 1", "PSU 2"]
    missing = facts.read(log.PROBE)
    assert isinstance(missing, Unknown)
    assert "the BMC serves no event log" in missing.reason


async def test_a_connection_that_reads_refuses_a_power_action(bmc: RedfishBmc) -> None:
    action = Command(key="bmc_action", script="power cycle")
    with pytest.raises(DeviceError, match="is only read here"):
        await run(bmc, action)
    assert not bmc.posted
    [output] = await run(bmc, action, changing=True)
    assert (output.exit, bmc.posted) == (0, [(RESET, {"ResetType": "PowerCycle"})])


async def test_of_several_systems_the_one_that_the_cluster_file_names_is_the_node(bmc: RedfishBmc) -> None:
    baseboard = {**machine("Off")[f"{V1}/Systems/1"], **link(f"{V1}/Systems/HGX"), "Id": "HGX"}
    bmc.resources |= {f"{V1}/Systems/HGX": baseboard, f"{V1}/Systems": members(f"{V1}/Systems/HGX", f"{V1}/Systems/1")}
    reading = (await facts_of(bmc))["n1:bmc"].read(power.PROBE)
    assert isinstance(reading, Unknown)
    assert "2 systems; name one of them in `bmc: {system: …}`: HGX, 1" in reading.reason
    action = Command(key="bmc_action", script="power cycle")
    with pytest.raises(DeviceError, match="has 2 systems"):
        await run(bmc, action, changing=True)
    [output] = await run(bmc, SYSTEMS, system="1")
    assert list(json.loads(output.text)) == [f"{V1}/Systems/1"]
