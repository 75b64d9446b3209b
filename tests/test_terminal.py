"""Nothing in the output of devices, in files or in other people's runs controls the terminal, on any path."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from railbed.cli.console import SafeConsole
from railbed.cli.run.encoding import SafeStream
from railbed.model.reading import Output
from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.model.text import clean, escape, printable
from railbed.transport.record import OutputRecorder
from tests.support.cli import SECONDS, environment, railbed
from tests.support.events import event
from tests.support.preloaded import server
from tests.support.runs import plain_run
from tests.support.sshd import running_servers

SOURCE = Path(__file__).parent.parent / "src" / "railbed" / "cli"
HOSTILE = "evil\x1b]0;owned\x07\x1b[2J\x1b[8m\x9b31m\u202edlrow\r\x08\x7f"
STEERING = ("\x1b]0;", "\x07", "\x1b[2J", "\x1b[8m", "\x9b", "\u202e", "\x08", "\x7f")
CLUSTER = "name: x\nnodes: {a: {host: 127.0.0.1}}\n"


def assert_harmless(shown: str) -> None:
    assert "evil" in shown, shown
    for piece in STEERING:
        assert piece not in shown, (piece, shown)


def test_each_function() -> None:
    assert clean(f"a\n\t{HOSTILE}").startswith("a\n\tevil\ufffd]0;owned\ufffd\ufffd[2J")
    assert printable("a\x1bb\nc") == "a b c"
    value = {"a": HOSTILE, "b": "\U000e0001 é 漢"}
    text = escape(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    for cleaned in (clean(HOSTILE), printable(HOSTILE), text):
        assert not any(piece in cleaned for piece in STEERING)
    assert clean("é 漢\N{NO-BREAK SPACE}🙂 plain") == "é 漢\N{NO-BREAK SPACE}🙂 plain"


def test_a_stream_cleans_text_and_keeps_the_meaning_of_json() -> None:
    raw = io.StringIO()
    stream = SafeStream(raw)
    stream.write(f"{HOSTILE}\n")
    stream.write(json.dumps({"a": HOSTILE}, ensure_ascii=False) + "\n")
    first, second = raw.getvalue().splitlines()
    assert_harmless(first)
    assert_harmless(second)
    assert json.loads(second) == {"a": HOSTILE}


def test_a_console_keeps_its_colours_and_cleans_the_text() -> None:
    raw = io.StringIO()
    SafeConsole(file=raw, force_terminal=True, color_system="standard", highlight=False).print(
        f"[bold]{HOSTILE}", markup=True
    )
    assert raw.getvalue().startswith("\x1b[1mevil\ufffd]0;owned")
    assert_harmless(raw.getvalue())


def test_every_console_is_one_that_cleans() -> None:
    for path in SOURCE.glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        assert "Console" not in names, f"{path.name}: use SafeConsole of cli/console.py"


def on_a_terminal(folder: Path, *arguments: str | Path) -> str:
    env = {name: value for name, value in environment().items() if name != "NO_COLOR"}
    return server().show([str(argument) for argument in arguments], cwd=folder, env=env, timeout=SECONDS)


def recording(folder: Path) -> Path:
    folder.mkdir()
    (folder / "cluster.yaml").write_text("name: x\nnodes: {a: {host: 127.0.0.1}, b: {host: 127.0.0.2}}\n")
    with OutputRecorder(folder) as recorder:
        for key, stdout, stderr, code in (
            ("hostname", f"==> hostname <==\n{HOSTILE}\n", "", 0),
            ("memory", "", HOSTILE, 1),
            ("cpu", HOSTILE, "", 0),
        ):
            output = Output(
                device="a",
                key=key,
                command="",
                stdout=stdout.encode(),
                stderr=stderr.encode(),
                exit=code,
                sent=0.0,
                received=0.1,
            )
            recorder.store(output)
        recorder.store_error("b", "LoginRefused", f"no: {HOSTILE}", f"try {HOSTILE}")
    return folder


@pytest.mark.whole
@pytest.mark.parametrize("more", [[], ["--all"], ["--json"]], ids=str)
def test_a_recording(tmp_path: Path, more: Sequence[str]) -> None:
    folder = recording(tmp_path / "recording")
    assert_harmless(on_a_terminal(tmp_path, "check", "--replay", folder, *more))


@pytest.mark.whole
def test_a_list_to_tick(tmp_path: Path) -> None:
    folder = recording(tmp_path / "recording")
    railbed(tmp_path, "check", "--replay", folder)
    assert_harmless(on_a_terminal(tmp_path, "check", "--checklist", "--replay", folder))


@pytest.mark.whole
def test_discover_from_a_recording(tmp_path: Path) -> None:
    folder = recording(tmp_path / "recording")
    assert_harmless(on_a_terminal(tmp_path, "discover", "a", "b", "--replay", folder))


@pytest.mark.whole
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "-c", f"{HOSTILE}.yaml"],
        ["report", HOSTILE],
        ["parse", HOSTILE, "x"],
        ["parse", "hostname", HOSTILE],
        [HOSTILE],
        ["check", f"--{HOSTILE}"],
        ["train", HOSTILE],
        ["bench", HOSTILE],
        ["check", "--replay", HOSTILE],
    ],
    ids=lambda arguments: arguments[0][:8].strip("\x1b]0;"),
)
def test_arguments(tmp_path: Path, arguments: Sequence[str]) -> None:
    assert_harmless(on_a_terminal(tmp_path, *arguments))


@pytest.mark.whole
def test_a_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(f"name: x\nnodes: {{a: {{host: {json.dumps(HOSTILE)}}}}}\n")
    shown = on_a_terminal(tmp_path, "check")
    assert not any(piece in shown for piece in STEERING)


@pytest.mark.whole
def test_a_run_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    records: list[Record] = [
        Finding(check=HOSTILE, subject=HOSTILE, verdict=Verdict.FAIL, expected=HOSTILE, observed=HOSTILE, why=HOSTILE),
        Measurement(name=HOSTILE, value=1.0, unit=HOSTILE, labels={HOSTILE: HOSTILE}),
        event(name="notice", subject=HOSTILE, message=HOSTILE, data={HOSTILE: HOSTILE}),
    ]
    first, second = (plain_run(records, verb="bench") for _ in range(2))
    about = json.loads((first / "run.json").read_text())
    (first / "run.json").write_text(
        json.dumps({**about, "cluster": HOSTILE, "version": HOSTILE, "arguments": [HOSTILE]})
    )
    assert_harmless(on_a_terminal(tmp_path, "runs"))
    assert_harmless(on_a_terminal(tmp_path, "runs", "--json"))
    assert_harmless(on_a_terminal(tmp_path, "compare", first, second, "--all"))
    assert_harmless(on_a_terminal(tmp_path, "compare", first, second, "--json"))
    for form in ("md", "json", "csv", "html"):
        assert_harmless(railbed(tmp_path, "report", first, "--format", form, "--output", "-").out)


@pytest.mark.whole
@pytest.mark.ssh
def test_a_node_that_prints_escape_sequences_over_ssh(tmp_path: Path) -> None:
    script = tmp_path / "login.sh"
    script.write_text(f"printf '%s\\n' '{HOSTILE}' >&2; exit 1\n")
    (tmp_path / "servers").mkdir()
    with running_servers(1, tmp_path / "servers", shell=f"sh {script}") as servers:
        (tmp_path / "cluster.yaml").write_text(servers.cluster_yaml())
        assert_harmless(on_a_terminal(tmp_path, "check"))
        server = servers.servers[0]
        where = f"{servers.user}@{server.address}:{server.port}"
        shown = on_a_terminal(tmp_path, "discover", where)
        assert not any(piece in shown for piece in STEERING)
