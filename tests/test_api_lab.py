"""`railbed.Lab`: brought up, checked, broken, healed and taken down from Python, with and without `async`."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

import railbed
from railbed.model import events

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> railbed.Lab:
    monkeypatch.chdir(tmp_path)
    return railbed.Lab(f"api-{secrets.token_hex(3)}", nodes=1)


async def test_a_lab_from_python(lab: railbed.Lab) -> None:
    """The blocking methods, in a coroutine as in a notebook, are those of the command line; runs note the faults."""
    async with lab:
        name = lab.spec.name
        assert list(lab.cluster.nodes) == ["node1"]
        assert lab.cluster_file.parent.name == name
        watching = railbed.watch(lab.cluster, seconds=60)
        async for _ in watching:
            (set_fault,) = railbed.Lab(name).fault("slow", "node1", "500M").result()
            assert isinstance(set_fault, events.LabFaultSet)
            assert (set_fault.subject, set_fault.message) == ("node1", "slow 500M")
            break
        await watching.aclose()
        assert '"name":"lab_fault"' in (watching.run.folder / "notes.jsonl").read_text()
        (status,) = await lab.status().wait()
        assert isinstance(status, events.LabStatus)
        assert [(fault.target, fault.text) for fault in status.faults] == [("node1", "slow 500M")]
        (healed,) = [event async for event in lab.heal("node1")]
        assert isinstance(healed, events.LabHealed)
        with pytest.raises(railbed.errors.UsageError, match="already exists"):
            await railbed.Lab(name).up().wait()
    assert await lab.status().wait() == []
