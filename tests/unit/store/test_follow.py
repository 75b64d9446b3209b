"""Following a run: existing records, new ones, and its end, even with half-written lines in between."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railbed.errors import UsageError
from railbed.model.events import Notice, Resuming
from railbed.model.record import Change, Event, Finding, Measurement, Record, Verdict
from railbed.store import (
    NewLines,
    OpenRun,
    Process,
    RecordReader,
    ask_to_end,
    follow,
    open_run,
    read_record,
    read_records,
    read_run_in,
    to_line,
)
from railbed.store.run import this_process

SECONDS = 20


@pytest.fixture(autouse=True)
def _runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def run() -> Iterator[OpenRun]:
    with open_run("train", cluster_name="lab", cluster_text="") as run:
        yield run


async def names(folder: Path, messages: asyncio.Queue[str] | None = None) -> list[str]:
    """Return the messages of a run's events, once it has ended; pass on each as it arrives."""
    all_names = []
    async with asyncio.timeout(SECONDS), aclosing(follow(folder)) as records:
        async for record in records:
            assert isinstance(record, Event)
            all_names.append(record.message)
            if messages:
                messages.put_nowait(record.message)
    return all_names


async def test_a_run_that_ended_is_read_to_its_end() -> None:
    with open_run("train", cluster_name="lab", cluster_text="") as run:
        run.append(Notice(message="a"))
        run.append(Notice(message="b"))
        run.finish("done", 0)
    assert await names(run.folder) == ["a", "b"]


async def test_what_is_written_meanwhile_comes_and_then_the_end() -> None:
    messages: asyncio.Queue[str] = asyncio.Queue()
    with open_run("train", cluster_name="lab", cluster_text="") as run:
        run.append(Notice(message="a"))
        following = asyncio.create_task(names(run.folder, messages))
        async with asyncio.timeout(SECONDS):
            assert await messages.get() == "a"
            run.append(Notice(message="b"))
            assert await messages.get() == "b"
        run.append(Notice(message="c"))
        run.finish("done", 0)
        assert not following.done()
    assert await following == ["a", "b", "c"]


async def test_a_line_that_is_not_whole_yet_is_waited_for(run: OpenRun) -> None:
    messages: asyncio.Queue[str] = asyncio.Queue()
    following = asyncio.create_task(names(run.folder, messages))
    with (run.folder / "records.jsonl").open("ab", buffering=0) as file:
        line = to_line(Notice(message="whole"))
        for part in (line[:7], line[7:40], line[40:]):
            file.write(part)
            await asyncio.sleep(0.3)
            assert messages.empty()
        file.write(b"\n" + to_line(Notice(message="next")) + b"\n")
        async with asyncio.timeout(SECONDS):
            assert [await messages.get(), await messages.get()] == ["whole", "next"]
    following.cancel()


async def test_a_line_that_was_never_finished_is_passed_over() -> None:
    with open_run("train", cluster_name="lab", cluster_text="") as run:
        run.append(Notice(message="a"))
        with (run.folder / "records.jsonl").open("ab") as file:
            file.write(to_line(Notice(message="torn"))[:20])
    assert await names(run.folder) == ["a"]


async def test_two_follow_at_once(run: OpenRun) -> None:
    queues: list[asyncio.Queue[str]] = [asyncio.Queue(), asyncio.Queue()]
    tasks = [asyncio.create_task(names(run.folder, queue)) for queue in queues]
    run.append(Notice(message="a"))
    async with asyncio.timeout(SECONDS):
        assert [await queue.get() for queue in queues] == ["a", "a"]
    for task in tasks:
        task.cancel()


async def test_a_run_that_is_killed_ends_what_follows_it(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from railbed.store import open_run\n"
        "from railbed.model.events import ReadingStarted\n"
        "with open_run('train', cluster_name='lab', cluster_text='') as run:\n"
        "    run.append(ReadingStarted(message='reading'))\n"
        "    print(run.folder, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        messages: asyncio.Queue[str] = asyncio.Queue()
        following = asyncio.create_task(names(folder, messages))
        async with asyncio.timeout(SECONDS):
            assert await messages.get() == "reading"
        process.kill()
        assert await following == ["reading"]
    summary = read_run_in(folder)
    assert summary is not None
    assert summary.status == "died"


async def test_a_run_without_records_has_none(tmp_path: Path) -> None:
    assert await names(tmp_path) == []


def test_a_run_that_ends_while_it_is_looked_at_has_not_died(run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends_just_now(_: Path) -> bool:
        run.finish("done", 0)
        return False

    monkeypatch.setattr("railbed.store.run.is_being_written", ends_just_now)
    summary = read_run_in(run.folder)
    assert summary is not None
    assert summary.status == "done"


RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(Resuming, subject=st.text(), message=st.text(), step=st.integers(), nodes=st.lists(st.text())),
    st.builds(Notice, message=st.text()),
    st.builds(Measurement, name=st.text(), value=st.floats(allow_nan=False, allow_infinity=False), unit=st.text()),
    st.builds(Change, subject=st.text(), action=st.just("add")),
    st.builds(
        Finding,
        **{key: st.text() for key in ("check", "subject", "expected", "observed", "why")},
        verdict=st.sampled_from(Verdict),
    ),
)


@given(RECORDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_record_comes_back_from_its_line(record: Record) -> None:
    assert read_record(to_line(record) + b"\n") == record


@given(st.one_of(st.binary(), st.text().map(str.encode), st.sampled_from([b"{}", b"[]", b'{"kind":"later"}'])))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_line_that_is_not_a_record_is_refused_in_one_way(line: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        read_record(line)


KINDS: list[tuple[type[Record], ...]] = [
    (),
    (Notice,),
    (Measurement,),
    (Finding, Measurement),
    (Resuming, Change),
    (Event,),
]
STEPS = st.builds(
    Measurement,
    name=st.sampled_from(["loss", "mfu"]),
    value=st.just(1.0),
    unit=st.just("1"),
    labels=st.fixed_dictionaries({}, optional={"rank": st.integers(0, 12), "step": st.integers(0, 12)}),
)


@given(
    RECORDS | STEPS,
    st.sampled_from(KINDS),
    st.sampled_from([(), ("loss",), ("loss", "mfu")]),
    st.none() | st.integers(0, 1),
    st.booleans(),
)
def test_a_reader_selects_the_same_records_as_if_it_parsed_every_line(
    record: Record, kinds: tuple[type[Record], ...], names: tuple[str, ...], rank: int | None, spaced: bool
) -> None:
    line = to_line(record)
    if spaced:  # as another program writes it
        line = json.dumps(dict(sorted(json.loads(line).items()))).encode()
    without = (Notice,) if Event in kinds else ()
    reader = RecordReader(kinds, names=names, rank=rank, without=without)
    is_selected = (not kinds or isinstance(record, kinds)) and not isinstance(record, without)
    if isinstance(record, Measurement):
        is_selected &= not names or record.name in names
        is_selected &= rank is None or record.labels.get("rank") == rank
    assert reader.read(line + b"\n") == (record if is_selected else None)
    assert reader.unreadable == 0


def test_lines_that_are_damaged_are_counted_unless_another_kind_was_wanted() -> None:
    lines = [
        b"",
        b"{",
        b"[1]",
        b'{"name":"notice","messa',
        b'{"name":"x","unit":1,"kind":"measurement"}',
        b"x" * 60_000,
    ]
    every, notices = RecordReader(), RecordReader([Notice])
    for line in lines:
        assert every.read(line + b"\n") is None
        assert notices.read(line + b"\n") is None
    assert (every.unreadable, notices.unreadable) == (len(lines), len(lines) - 1)


def test_long_lines_and_incomplete_ones_are_read_once(run: OpenRun) -> None:
    path, lines = run.folder / "records.jsonl", NewLines()
    message = "x" * 60_000
    run.append(Notice(message=message))
    torn = to_line(Notice(message="torn"))
    with path.open("ab") as file:
        file.write(torn[:9])
    with path.open("rb") as file:
        (line,) = lines.read(file)
    assert isinstance(notice := read_record(line), Notice)
    assert notice.message == message
    with path.open("ab") as file:
        file.write(torn[9:] + b"\n")
    with path.open("rb") as file:
        assert list(lines.read(file)) == [torn]
    assert len(list(read_records(run.folder, Notice))) == 2


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Process]]:
    """A process that locks `records` as a run does, prints its number, and sleeps."""
    code = (
        "import fcntl, time; from pydantic_core import to_json; from railbed.store.run import this_process\n"
        "file = open('records', 'ab'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(to_json(this_process()).decode(), flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        yield process, Process(**json.loads(process.stdout.readline()))
        process.kill()


def test_the_process_that_is_meant_is_ended(sleeper: tuple[subprocess.Popen[bytes], Process], tmp_path: Path) -> None:
    process, named = sleeper
    assert named.pid == process.pid
    assert ask_to_end(named, tmp_path / "records")
    assert process.wait(SECONDS) == -signal.SIGTERM
    assert not ask_to_end(named, tmp_path / "records")


def test_a_later_process_of_the_same_number_is_let_alone(
    sleeper: tuple[subprocess.Popen[bytes], Process], tmp_path: Path
) -> None:
    process, named = sleeper
    assert not ask_to_end(replace(named, started=named.started - 1), tmp_path / "records")
    with pytest.raises(UsageError, match="on another machine, elsewhere"):
        ask_to_end(replace(named, boot="another", machine="elsewhere"), tmp_path / "records")
    assert process.poll() is None


def test_a_process_that_does_not_write_the_run_is_left_alone(
    sleeper: tuple[subprocess.Popen[bytes], Process], tmp_path: Path
) -> None:
    """A forged run.json may name any process of the caller, and forged records may be a link to what it has locked."""
    process, named = sleeper
    forged = tmp_path / "forged"
    with forged.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not ask_to_end(named, forged)
    forged.unlink()
    forged.symlink_to(tmp_path / "records")
    assert not ask_to_end(named, forged)
    assert process.poll() is None


def test_this_process_is_named() -> None:
    named = this_process()
    assert named is not None
    assert named.pid == os.getpid()


@pytest.mark.parametrize("name", ["of_a_later_railbed", "resuming"])
def test_an_event_that_is_not_listed_or_lacks_its_data_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"no event '{name}'|validation error"):
        read_record(json.dumps({"kind": "event", "name": name, "data": {"step": "many"}}).encode())
