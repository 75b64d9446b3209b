"""A run that loses a node records what the BMC of that node reports, and nothing that happens there stops the run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.support.bmcs import PASSWORD, USER, machine, redfish_bmc

from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from railbed.watch.lost import LostNodes


async def losing(*nodes: str) -> AsyncGenerator[Record, None]:
    for node in nodes:
        yield events.NodeLost(subject=node, message="no answer for 4 s")


async def reports(cluster: Cluster, *nodes: str) -> list[Record]:
    async with (
        live_connector() as connect,
        Fleet(targets_of(cluster), connect, timeout=10.0) as fleet,
        aclosing(LostNodes(cluster, fleet).beside(losing(*nodes))) as records,
    ):
        return [record async for record in records]


def cluster_with(port: int, fingerprint: str, **own: Any) -> Cluster:
    bmc = {"host": "127.0.0.1", "port": port, "fingerprint": fingerprint, "user": USER}
    secret = {"password": {"env": "BMC_PASSWORD"}}
    nodes = {"n1": {"host": "local", "bmc": {**bmc, **secret, **own}}, "n2": {"host": "192.0.2.1"}}
    return Cluster.model_validate({"name": "site", "nodes": nodes})


async def test_the_report_is_in_the_records_before_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several signs of one loss give one report, and a node without a BMC none."""
    monkeypatch.setenv("BMC_PASSWORD", PASSWORD)
    with redfish_bmc(tmp_path, machine("Off")) as bmc:
        records = await reports(cluster_with(bmc.port, bmc.fingerprint), "n1", "n2", "n1")
        assert not bmc.posted
    made = [record for record in records if isinstance(record, events.BmcReport)]
    assert [(report.subject, report.power, report.answers) for report in made] == [("n1", "off", True)]
    assert made[0].message.startswith("its BMC reports power off, in its event log 2026-11-18 08:00 UTC")
    assert len(records) == 4


async def test_a_bmc_that_cannot_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMC_PASSWORD", "another")
    with redfish_bmc(tmp_path) as bmc:
        *_, report = await reports(cluster_with(bmc.port, bmc.fingerprint), "n1")
    assert isinstance(report, events.BmcReport)
    assert report.message.startswith("its BMC does not answer: 127.0.0.1 port")
    assert not report.answers


async def test_nobody_is_asked_for_a_password_in_the_middle_of_a_run(tmp_path: Path) -> None:
    with redfish_bmc(tmp_path) as bmc:
        cluster = cluster_with(bmc.port, bmc.fingerprint, password={"prompt": "password of the BMC"})
        *_, report = await reports(cluster, "n1")
        assert not bmc.requests
    assert isinstance(report, events.BmcReport)
    assert "its password is asked for on the terminal" in report.message
