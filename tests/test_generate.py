"""`railbed generate` as users run it: from a run, from folders, streamed, interrupted, side by side."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import railbed as api
from railbed.errors import UsageError
from railbed.model.events import TextGenerated
from railbed.model.text import clean
from tests.support.adapters import write_adapter
from tests.support.background import Background
from tests.support.cli import Result, environment, railbed
from tests.support.tinymodels import own_folder, write_model

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("train")]
GREEDY = ("--greedy", "--tokens", "6")


def call(folder: Path, *arguments: str | Path, stdin: bytes = b"") -> Result:
    return railbed(folder, "generate", *arguments, stdin=stdin, HOME=str(folder))


def answers(result: Result) -> list[dict[str, Any]]:
    return [record["data"] for record in result.records if record.get("name") == "generated"]


def test_a_run_and_its_exported_folder_give_the_same_text(trained_here: Path, tmp_path: Path) -> None:
    prompt = ("--prompt", "12 green bottles")
    from_run = call(trained_here, "newest", *prompt, *GREEDY, "--json")
    assert from_run.code == 0, from_run
    (answer,) = answers(from_run)
    assert (len(answer["tokens"]), answer["stop"], answer["input"]) == (6, "tokens", "12 green bottles")
    assert railbed(trained_here, "export", "newest", tmp_path / "weights").code == 0
    from_folder = call(tmp_path, "weights", *prompt, *GREEDY, "--json")
    assert answers(from_folder)[0]["tokens"] == answer["tokens"], from_folder
    (run,) = (trained_here / "runs").glob("*-train")
    plain = call(tmp_path, tmp_path / "weights", *prompt, *GREEDY, "-c", run / "cluster.yaml", "--node", "here")
    assert plain.out == answer["text"] + "\n" * (not answer["text"].endswith("\n"))
    assert "6 tokens, " in plain.err


def test_prompts_come_from_a_file_or_from_standard_input(trained_here: Path) -> None:
    (trained_here / "prompts.txt").write_text("1 green\n\n2 green\n")
    several = call(trained_here, "newest", "--prompts", "prompts.txt", *GREEDY)
    assert several.out.startswith("> 1 green\n"), several
    assert "\n> 2 green\n" in several.out
    piped = call(trained_here, "newest", *GREEDY, "--json", stdin=b"1 green\n")
    assert answers(piped)[0]["input"] == "1 green"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["missing/folder", "-p", "x"], 2, "there is no folder missing/folder"),
        ([".", "-p", "x"], 2, "is neither a run nor the folder of a model"),
        (["20200101-000000-train", "-p", "x"], 2, "there is no run '20200101-000000-train' in runs"),
        (["newest", "-p", "x", "--node", "other"], 2, "there is no node other in here"),
        (["newest", "-p", "x", "--chat"], 2, "has no chat template"),
        (["newest", "-p", "x", "--before"], 2, "--before needs a fine-tuned model"),
        (["newest", "-p", "x", "--prompts", "y"], 2, "--prompt and --prompts cannot be combined"),
        (["newest", "--prompts", "missing.txt"], 2, "missing.txt cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_is_one_sentence(trained_here: Path, arguments: list[str], code: int, sentence: str) -> None:
    done = call(trained_here, *arguments)
    assert (done.code, sentence in done.err, done.out) == (code, True, ""), done


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_answers_side_by_side_and_merged(trained_here: Path, tmp_path: Path) -> None:
    """Two columns in 80; merged into one model it gives the same tokens; and it becomes a GGUF file, with a notice."""
    pytest.importorskip("peft")
    base = write_model(tmp_path / "base", "llama", chat=True, style="mistral")
    write_adapter(base, tmp_path / "adapter", "none", use_rslora=True)
    (run,) = (trained_here / "runs").glob("*-train")
    where = ("-c", run / "cluster.yaml", "--node", "here")
    prompt = ("-p", "12 green", "--no-chat", "--greedy", "--tokens", "24")
    shown = call(tmp_path, tmp_path / "adapter", *prompt, *where)
    assert shown.code == 0, shown
    lines = shown.out.splitlines()
    assert lines[0].startswith("> 12 green")
    assert "before fine-tuning" in shown.out
    assert "after fine-tuning" in shown.out
    assert max(map(len, lines)) <= 80
    (stored,) = (tmp_path / "runs").glob("*-generate")
    both = answers(Result(0, (stored / "records.jsonl").read_text(), ""))
    assert [answer["when"] for answer in both] == ["before", "after"]
    assert both[0]["tokens"] != both[1]["tokens"]
    merged = railbed(tmp_path, "export", tmp_path / "adapter", "merged", "--merge", *where)
    assert (merged.code, "merged weights, from " in merged.out) == (0, True), merged
    (alone,) = answers(call(tmp_path, tmp_path / "merged", *prompt, *where, "--json"))
    assert ("when" in alone, alone["tokens"]) == (False, both[1]["tokens"])
    gguf = railbed(tmp_path, "export", tmp_path / "adapter", "gguf", "--gguf", "--type", "q8_0", *where)
    assert gguf.code == 0, gguf
    assert "ollama create NAME -f " in gguf.out
    assert "llama.cpp can only do both or neither, and does neither" in gguf.err
    assert sorted(path.name for path in (tmp_path / "gguf").iterdir()) == ["Modelfile", "manifest.json", "model.gguf"]
    assert (tmp_path / "gguf" / "model.gguf").read_bytes()[:4] == b"GGUF"
    assert not list((trained_here / "work" / ".railbed").rglob("temporary*"))


def test_a_run_becomes_a_gguf_file(trained_here: Path, tmp_path: Path) -> None:
    done = railbed(trained_here, "export", "newest", tmp_path / "gguf", "--gguf")
    assert (done.code, "GGUF file of step 12, as written at its end, from here: " in done.out) == (0, True), done
    reader = pytest.importorskip("gguf").GGUFReader(tmp_path / "gguf" / "model.gguf")
    assert reader.fields["gpt2.context_length"].contents() == 32
    assert not list((trained_here / "work" / ".railbed").rglob("temporary*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["newest", "x", "--merge"], "there is no adapter to merge: all weights were trained"),
        (["newest", "x", "--type", "f16"], "--type needs --gguf"),
        (["newest", "x", "--dtype", "float32"], "--dtype needs --merge, and no --gguf"),
    ],
)
def test_exports_that_cannot_be_are_one_sentence(trained_here: Path, arguments: list[str], sentence: str) -> None:
    done = railbed(trained_here, "export", *arguments)
    assert (done.code, sentence in done.err, (trained_here / "x").exists()) == (2, True, False), done


def test_ctrl_c_keeps_what_was_generated(trained_here: Path, tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "endless", context=200_000)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "eos_token_id": 10**9}))
    (run,) = (trained_here / "runs").glob("*-train")
    where = ("-c", str(run / "cluster.yaml"), "--node", "here")
    words = ["generate", str(folder), "-p", "x", "--tokens", "190000", *where]
    process = Background(words, cwd=tmp_path, env=environment(HOME=str(trained_here)))
    streamed = os.read(process.stdout.fileno(), 100)
    assert streamed, process.communicate(timeout=60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "railbed: interrupted" in err.decode()) == (130, True), err
    (run,) = (tmp_path / "runs").glob("*-generate")
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    (answer,) = [record["data"] for record in records if record.get("name") == "generated"]
    assert answer["stop"] == "interrupted"
    assert (streamed + out).decode(errors="replace").strip() == clean(answer["text"]).strip()
    assert programs_with(f"HOME={trained_here}") == []


def programs_with(variable: str) -> list[str]:
    """Return the programs that generate, and have this in their environment."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_text()
            if "worker.results" in command and f"{variable}\0" in (process / "environ").read_text():
                commands.append(command)
    return commands


def test_from_python_it_is_the_same(trained_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (printed,) = answers(call(trained_here, "newest", "--prompt", "12 green bottles", *GREEDY, "--json"))
    monkeypatch.chdir(trained_here)
    stream = api.generate("newest", "12 green bottles", tokens=6, greedy=True)
    (answer,) = [record for record in stream if isinstance(record, TextGenerated)]
    assert (answer.text, answer.tokens) == (printed["text"], printed["tokens"])
    assert (stream.run.verb, stream.run.exit) == ("generate", 0)
    with pytest.raises(UsageError, match="there is no prompt"):
        api.generate("newest", [])
    with pytest.raises(UsageError, match=r"top_p 1\.5 is not 0 to 1"):
        api.generate("newest", "12 green", top_p=1.5)
