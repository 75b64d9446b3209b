"""Real device output kept beside the project: each file is read by a probe through `railbed parse`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railbed.cli.main import run

FIXTURES = Path(__file__).parent.parent.parent / "shared" / "fixtures"
pytestmark = [pytest.mark.shared, pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")]

PROBE_OF = {
    "dcb_app_show__*": "dcb_app",
    "dcb_pfc_show__*": "dcb_pfc",
    "ethtool_S__*": "ethtool_stats",
    "hw_counter_names__*": "counter_names",
    "ibstat__*": "ibstat",
    "ibv_devinfo_*": "ibv_devinfo",
    "mlnx_qos_*": "mlnx_qos",
    "mlx5_debugfs_cc_params__names*": "dcqcn",
    "rdma_statistic_show__*": "rdma_statistic",
}
SYSFS_PROBES = ("infiniband", "infiniband_counters")


def parsed(probe: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = run(["parse", probe, str(path)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert json.loads(captured.out)["facts"]
    return captured.out


@pytest.mark.parametrize("path", sorted((FIXTURES / "host").glob("*.txt")), ids=lambda path: path.stem)
def test_host_output(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probes = [probe for pattern, probe in PROBE_OF.items() if path.match(pattern)]
    assert len(probes) == 1, "no probe is named for this file"
    parsed(probes[0], path, capsys)


@pytest.mark.parametrize("probe", SYSFS_PROBES)
@pytest.mark.parametrize("device", ["mlx4_0", "mlx5_0"])
def test_sysfs_tree(probe: str, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert device in parsed(probe, FIXTURES / "sysfs" / device, capsys)


def test_every_host_file_is_there() -> None:
    assert len(list((FIXTURES / "host").glob("*.txt"))) >= 13
