"""Recordings: they contain no secrets, and a damaged one gives one sentence, however it was damaged."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railbed.cli.verbs.parse import parse_command
from railbed.errors import LoginRefused, Unreachable, UsageError
from railbed.model.reading import Output
from railbed.transport.base import Command, Target
from railbed.transport.record import INDEX, OutputRecorder, recording_connector
from railbed.transport.replay import replay_connector

ODD_TIMES: list[Any] = ["soon", None, True, [], 10**400]
ODD_EXITS: list[Any] = ["0", 0.5, True, {}]
ODD_FILES: list[Any] = [5, None, [], "", ".", "..", "x\0y", "../b/x", "/etc/passwd", "n" * 999]
LINE: dict[str, Any] = {
    "key": "ip_link",
    "command": "ip -j link",
    "exit": 0,
    "sent": 1,
    "received": 1.5,
    "truncated": False,
    "failure": "",
    "stderr": "",
    "stdout": "ip_link.1.out",
}


def output(device: str = "a", stdout: bytes = b"[]", **more: Any) -> Output:
    fields = {"key": "ip_link", "command": "ip -j link", "exit": 0, "sent": 1.0, "received": 1.5, **more}
    return Output(device=device, stdout=stdout, **fields)


def recording(folder: Path, *lines: bytes | dict[str, Any], end: bytes = b"\n") -> Path:
    """Write the index of device `a` by hand."""
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "ip_link.1.out").write_bytes(b"[]")
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (folder / "a" / INDEX).write_bytes(b"\n".join(texts) + (end if lines else b""))
    return folder


async def replay(folder: Path, *keys: str) -> list[Output]:
    commands = [Command(key=key, script="") for key in keys or ("ip_link",)]
    async with replay_connector(folder)(Target(name="a", host="a")) as transport:
        return [output async for output in transport.run(commands)]


async def test_commands_of_every_few_seconds_are_not_recorded(tmp_path: Path) -> None:
    recorded = recording(tmp_path / "first", LINE)
    connect = recording_connector(replay_connector(recorded), OutputRecorder(tmp_path / "second"))
    async with connect(Target(name="a", host="a")) as transport:
        command = Command(key="ip_link", script="", recorded=False)
        assert [output.stdout async for output in transport.run([command])] == [b"[]"]
    assert not (tmp_path / "second").exists()


async def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    first = output(stderr=b"warning")
    second = output(stdout=b"[1]", exit=None, failure="took too long", truncated=True)
    with OutputRecorder(tmp_path) as recorder:
        recorder.store(first)
        recorder.store(second)
    assert await replay(tmp_path, "ip_link", "ip_link") == [first, second]
    (missing,) = await replay(tmp_path, "cpu")
    assert missing.failure == "is not in the recording"


async def test_an_output_may_be_in_the_line_itself(tmp_path: Path) -> None:
    line = {**LINE, "text": '[{"ifname": "eth0"}]\n'}
    del line["stdout"]
    (replayed,) = await replay(recording(tmp_path, line))
    assert replayed.stdout == b'[{"ifname": "eth0"}]\n'


async def test_an_error_comes_back(tmp_path: Path) -> None:
    with OutputRecorder(tmp_path) as recorder:
        recorder.store_error("a", "LoginRefused", "a said no: key \udcff", hint="ask")
    with pytest.raises(LoginRefused, match="a said no"):
        await replay(tmp_path)


async def test_secrets_stay_out_of_every_file(tmp_path: Path) -> None:
    with OutputRecorder(tmp_path) as recorder:
        recorder.store(
            output(stdout=b"HF_TOKEN=hunter2", stderr=b'password: "hunter2 x"', command="API_KEY=hunter2 ip")
        )
        recorder.store_error("a", "Unreachable", "https://me:hunter2@host said no")
    assert all(b"hunter2" not in path.read_bytes() for path in (tmp_path / "a").iterdir())
    (replayed,) = await replay(tmp_path)
    assert replayed.stdout == b"HF_TOKEN=<removed>"


@pytest.mark.parametrize(
    "line",
    [
        *[{name: value for name, value in LINE.items() if name != left_out} for left_out in LINE],
        *[{**LINE, name: value} for name in ("sent", "received") for value in ODD_TIMES],
        *[{**LINE, "exit": value} for value in ODD_EXITS],
        *[{**LINE, "stdout": value} for value in ODD_FILES],
        *[{**LINE, name: 5} for name in ("key", "command", "truncated", "failure", "stderr", "text")],
        {**LINE, "stderr": "\ud800"},
        {"error": 5},
        {"error": "Unreachable", "message": None},
        json.dumps({**LINE, "sent": float("nan")}).encode(),
        b"[" * 100_000,
        b'{"key":' * 100_000,
        b"5",
        b"",
        b"not json",
        b"\xff\xfe",
    ],
    ids=lambda line: str(line)[:60],
)
async def test_a_damaged_index_is_one_sentence_with_its_name(tmp_path: Path, line: bytes | dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        await replay(recording(tmp_path, line))
    assert str(tmp_path / "a") in caught.value.message
    assert "\n" not in caught.value.message
    assert "Errno" not in caught.value.message


async def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    recording(tmp_path / "rec", LINE)
    (tmp_path / "rec" / "a" / "ip_link.1.out").unlink()
    (tmp_path / "rec" / "a" / "ip_link.1.out").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="not a file of its folder"):
        await replay(tmp_path / "rec")


async def test_a_file_that_is_missing(tmp_path: Path) -> None:
    (recording(tmp_path, LINE) / "a" / "ip_link.1.out").unlink()
    with pytest.raises(UsageError, match=r"ip_link\.1\.out is missing$"):
        await replay(tmp_path)


async def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    first, second = await replay(recording(tmp_path, LINE, b'{"key": "ip_l', end=b""), "ip_link", "ip_link")
    assert (first.stdout, second.failure) == (b"[]", "is not in the recording")


@pytest.mark.parametrize("lines", [(), (b'{"key": "ip_l',)])
async def test_an_empty_index_is_not_a_recording_of_that_device(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    with pytest.raises(Unreachable, match="a is not in the recording"):
        await replay(recording(tmp_path, *lines, end=b""))


@pytest.fixture
def few_files() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    now_open = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (now_open + 8, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("few_files")
def test_more_devices_than_a_process_may_open_files(tmp_path: Path) -> None:
    with OutputRecorder(tmp_path) as recorder:
        for number in range(64):
            recorder.store(output(f"n{number}"))
    assert len(list(tmp_path.glob(f"*/{INDEX}"))) == 64


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railbed.transport.record.for_us_alone", lambda _, flags: os.open("/dev/full", flags))
    sentence = f"^cannot record to {tmp_path}: the disk is full$"
    with OutputRecorder(tmp_path) as recorder:
        with pytest.raises(UsageError, match=sentence) as caught:
            recorder.store(output())
        assert caught.value.hint
        with pytest.raises(UsageError, match=sentence):
            recorder.store_error("a", "Unreachable", "no answer")


def test_a_saved_output_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="cannot be read: File name too long"):
        parse_command("ip_link", Path("n" * 5000))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        parse_command("ip_link", Path("-"))


def test_a_saved_output_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "saved").write_bytes(b"x\n" * (2 * 2**20 + 1))
    with pytest.raises(UsageError, match="is larger than 4 MiB, which no probe prints"):
        parse_command("hostname", tmp_path / "saved")


@pytest.mark.parametrize("name", [INDEX, "ip_link.1.out"])
async def test_a_pipe_in_a_recording_does_not_block(tmp_path: Path, name: str) -> None:
    folder = recording(tmp_path / "rec", LINE)
    (folder / "a" / name).unlink()
    os.mkfifo(folder / "a" / name)
    with pytest.raises(UsageError, match="cannot be read: is not a file"):
        await replay(folder)
