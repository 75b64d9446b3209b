"""`railbed discover` from a user's point of view: odd arguments, odd machines, and care for the file it writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.model.reading import Output
from railbed.transport.record import OutputRecorder
from tests.support.cli import RAILBED, environment, railbed
from tests.support.recordings import make_recording

pytestmark = pytest.mark.whole


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return make_recording("two-roce-vms", tmp_path / "recording")


@pytest.fixture
def cluster_file(tmp_path: Path, recording: Path) -> Path:
    """Return the file of the recorded machines."""
    assert railbed(tmp_path, "discover", "--replay", recording, "-c", "found.yaml").code == 0
    return tmp_path / "found.yaml"


def test_the_login_of_the_recording_stays(tmp_path: Path, recording: Path, cluster_file: Path) -> None:
    login = clusterfile.load(recording / "cluster.yaml").login
    assert login.key
    assert clusterfile.load(cluster_file).login == login
    result = railbed(tmp_path, "discover", "--replay", recording, "-c", cluster_file, "--json")
    assert result.code == 0, result
    assert not [record for record in result.records if record["kind"] == "change"]


def rediscover(folder: Path, recording: Path, file: str | Path = "found.yaml") -> str:
    """Make the changes in a file, and return the messages."""
    result = railbed(folder, "discover", "--replay", recording, "-c", file, "--write", COLUMNS="300")
    assert result.code == 0, result
    return result.err


def set_outputs(recording: Path, node: str, **outputs: str | None) -> None:
    """Replace the recorded output of a machine; None is a probe that got no answer."""
    shutil.rmtree(recording / node)
    with OutputRecorder(recording) as recorder:
        for key, text in outputs.items():
            failure = "timed out" if text is None else ""
            recorder.store(
                Output(
                    device=node,
                    key=key,
                    command="",
                    stdout=(text or "").encode(),
                    exit=None if failure else 0,
                    sent=0.0,
                    received=0.01,
                    failure=failure,
                )
            )


def test_a_machine_that_tells_nothing_loses_nothing(tmp_path: Path, recording: Path, cluster_file: Path) -> None:
    before = cluster_file.read_bytes()
    set_outputs(recording, "vm1", hostname=None, ip_addr=None, ip_link=None, rdma_link=None, infiniband=None, gpu=None)
    result = railbed(tmp_path, "discover", "--replay", recording, "-c", "found.yaml", "--write", "--json")
    assert result.code == 0, result
    assert cluster_file.read_bytes() == before
    messages = [record["message"] for record in result.records if record.get("name") == "notice"]
    assert len(messages) == 3
    assert all("192.168.250.201" in message and "timed out" in message for message in messages)


@pytest.mark.parametrize("name", ["_vm", "-vm", "(none)", "ü", "", "v" * 70])
def test_any_hostname_gives_a_file(tmp_path: Path, recording: Path, name: str) -> None:
    set_outputs(recording, "vm1", hostname=f"==> hostname <==\n{name}\n")
    result = railbed(tmp_path, "discover", "--replay", recording, "-c", "odd.yaml")
    assert result.code == 0, result
    assert len(clusterfile.load(tmp_path / "odd.yaml").nodes) == 2


def test_a_known_name_on_another_machine_is_not_overwritten(
    tmp_path: Path, recording: Path, cluster_file: Path
) -> None:
    elsewhere = cluster_file.read_text().replace("192.168.250.201", "192.168.250.77")
    cluster_file.write_text(elsewhere)
    rediscover(tmp_path, recording)
    nodes = clusterfile.load(cluster_file).nodes
    assert {name: node.host for name, node in nodes.items()} == {
        "vm1": "192.168.250.77",
        "vm2": "192.168.250.202",
        "vm1-2": "192.168.250.201",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["x." * 40 + "invalid"],
        ["_host.invalid"],
        ["a@b.invalid:1", "a-b.invalid:1"],
        ["h.invalid", "-c", "s" * 70 + ".yaml"],
        ["h.invalid", "--switch", "leaf1", "--switch", "192.0.2.9"],
    ],
)
def test_odd_arguments_that_are_right(tmp_path: Path, arguments: list[str]) -> None:
    result = railbed(tmp_path, "discover", *arguments, "--timeout", "5")
    assert result.code == 3, result


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x" * 300], "is not a machine"),
        (["a@-host"], "is not a machine"),
        (["host:0"], "is not a machine"),
        (["h", "H:22"], "given twice"),
        (["ann@h", "bob@h"], "given twice"),
        (["h", "--switch", ""], "--switch '' is not a host"),
        (["h", "--switch", "bad host!"], "--switch 'bad host!' is not a host"),
        (["h", "-c", "x" * 300 + ".yaml"], "cannot be found"),
    ],
)
def test_arguments_that_are_wrong(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = railbed(tmp_path, "discover", *arguments)
    assert result.code == 2, result
    assert words in result.err


def test_a_long_file_name_gives_a_short_cluster_name(tmp_path: Path, recording: Path) -> None:
    file = tmp_path / ("s" * 70 + ".yaml")
    assert railbed(tmp_path, "discover", "--replay", recording, "-c", file).code == 0
    assert clusterfile.load(file).name == "s" * 64


def test_a_deleted_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = f'cd gone && rmdir ../gone && exec "{RAILBED}" discover h'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert done.returncode == 2, done
    assert b"Traceback" not in done.stderr
    assert done.stderr.startswith(b"railbed: ")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_encoding_stay(tmp_path: Path, recording: Path, cluster_file: Path, mark: bytes) -> None:
    right = cluster_file.read_bytes()
    lines = [line for line in right.splitlines() if b"Ethernet1/3" not in line]
    comment = "# Gerät\r\n".encode()
    cluster_file.write_bytes(mark + comment + b"".join(line + b"\r\n" for line in lines))
    result = railbed(
        tmp_path, "discover", "--replay", recording, "-c", "found.yaml", "--write", LC_ALL="C", PYTHONUTF8="0"
    )
    assert result.code == 0, result
    assert cluster_file.read_bytes() == mark + comment + right.replace(b"\n", b"\r\n")


def test_a_link_and_the_mode_stay(tmp_path: Path, recording: Path, cluster_file: Path) -> None:
    right = cluster_file.read_text()
    (tmp_path / "real").mkdir()
    real = cluster_file.rename(tmp_path / "real" / "lab.yaml")
    real.write_text(right.replace("rocep11s0", "old"))
    real.chmod(0o640)
    cluster_file.symlink_to(Path("real", "lab.yaml"))
    rediscover(tmp_path, recording)
    assert cluster_file.is_symlink()
    assert real.read_text() == right
    assert real.stat().st_mode & 0o7777 == 0o640
    assert os.listdir(tmp_path / "real") == ["lab.yaml"]  # noqa: PTH208


def test_brackets_in_a_file_name_are_shown(tmp_path: Path, recording: Path) -> None:
    result = railbed(tmp_path, "discover", "--replay", recording, "-c", "lab[red].yaml", COLUMNS="300")
    assert result.code == 0, result
    assert "lab[red].yaml: written" in result.err
    assert "railbed check -c 'lab[red].yaml'" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jump", "@@"], ["--jump '@@' is not a jump host", "[user@]host[:port]"]),
        (["--key", "no-such-key"], ["--key no-such-key: there is no such file"]),
        (["--user", "a\nb"], ["--user 'a\\nb' cannot be used"]),
    ],
)
def test_a_login_that_cannot_be_used_is_refused_before_anything_is_asked(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    result = railbed(tmp_path, "discover", "127.0.0.1", *arguments)
    assert result.code == 2, result
    assert all(word in result.err for word in words), result
    assert not (tmp_path / "cluster.yaml").exists()
