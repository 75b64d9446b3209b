"""Sections about small runs: their content, what they leave out, and that no device output becomes markup."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.support.events import event
from tests.support.runs import STARTED, finding, plain_run, training_run

from railbed.errors import UsageError
from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.model.text import clean
from railbed.present.wording import JOIN, join_names, natural_order, percent, plural, seconds, size
from railbed.report import describe, read
from railbed.report.blocks import Entries, Facts, Figure, TableBlock, TextBlock
from railbed.report.document import all_sections
from railbed.report.formats.data import as_json
from railbed.report.formats.html import MOST, _policy, as_html, downsample
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.history import restarts
from railbed.report.reading.run import RunData
from railbed.report.sections import findings, loss, method, nodes, ranks, sample, setup, speed, time
from railbed.store import Status

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e$c1"
DEFAULT_SECTIONS = (
    "verdict loss speed time path ranks restarts findings nodes memory sample setup method".split()  # noqa: SIM905
)


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@dataclass(frozen=True)
class Page:
    """A page, and what is on it."""

    html: str
    verdict: str
    sections: Sequence[str]
    figures: int


def build(run: RunData) -> Page:
    document = describe(run)
    return Page(as_html(document), document.sentence, document.sections, document.figures)


def measured(name: str, step: int, value: float, rank: int = 0, node: str = "a") -> Measurement:
    labels: dict[str, str | int] = {"step": step, "rank": rank, "node": node}
    return Measurement(name=name, value=value, unit="s", labels=labels, time=STARTED + step)


def started(number: int, at: float, *names: str) -> Event:
    return event(name="generation", data={"generation": number, "nodes": list(names)}, time=STARTED + at)


def text_of(page: Page) -> str:
    """The text of a page as a reader has it: without scripts and styles."""
    text = re.sub(r"<(script|style).*?</\1>", "", page.html, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", text).replace(JOIN, " ")


def page_of(*records: Record) -> Page:
    return build(read(plain_run(records)))


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def tags_of(page: Page) -> Tags:
    tags = Tags()
    tags.feed(page.html)
    return tags


def test_a_training_run_has_every_section() -> None:
    page = build(read(training_run()))
    assert page.sections == DEFAULT_SECTIONS
    assert page.figures == 10
    assert page.verdict.startswith("Training took 2 min 29 s: the loss fell from 7.9")
    assert "it restarted once and lost 17.6 s" in page.verdict
    assert tags_of(page).tags.count("section") == len(page.sections)
    text = text_of(page)
    for words in (
        "rank 1 was ended by SIGKILL",
        "the state of step 150",
        "to repeat 23 steps",
        "Soft-RoCE",
        "tiny",
        "of 3.81 GB of gradients crossed RoCE on both nodes",
        "0 B to 1.93 GB",
    ):
        assert words in text


def test_every_section_has_a_form() -> None:
    others = ["experiment", "measured", "happened", "timeline", "perplexity"]
    names = [section.name for section in all_sections() if not section.name.startswith("packets_")]
    assert [name for name in names if name not in others] == DEFAULT_SECTIONS
    assert set(names) == {*DEFAULT_SECTIONS, *others}
    assert len({section.order for section in all_sections()}) == len(all_sections())


def test_a_verdict_has_its_colour_in_lists_and_tables() -> None:
    page = page_of(finding(Verdict.FAIL), finding(Verdict.OK))
    assert '<span class="mark bad">fail</span>' in page.html
    assert '<span class="mark good">ok</span>' in page.html


def test_an_empty_run_is_a_page_without_plots() -> None:
    page = page_of()
    assert page.sections == ["setup"]
    assert page.verdict == "Training took 12.5 s."
    assert "Plotly" not in page.html
    assert "script-src 'none'" in page.html.replace("&#39;", "'")
    assert len(page.html) < 30_000


def test_a_run_that_died_before_its_first_record() -> None:
    folder = plain_run(status="running")
    (folder / "records.jsonl").unlink()
    (folder / "cluster.yaml").unlink()
    assert build(read(folder)).verdict.startswith("Training died without a message")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("failed", "failed"),
        ("stopped", "was stopped"),
        ("died", "died without a message"),
        ("waiting", "waits for its Slurm job"),
    ],
)
def test_the_verdict_says_how_it_ended(status: str, words: str) -> None:
    folder = plain_run(verb="check", status=status)  # type: ignore[arg-type]
    assert build(read(folder)).verdict.startswith(f"The check {words}")


@pytest.mark.parametrize(("status", "word"), [("stopped", "Stopped"), ("failed", "Failed"), ("done", "Failed")])
def test_a_run_that_was_stopped_is_not_called_failed(status: Status, word: str) -> None:
    """Whatever its findings are: they are in the sentence."""
    document = describe(read(plain_run([finding(Verdict.FAIL)], verb="check", status=status)))
    assert (document.tone_word, document.verdict.tone) == (word, "bad")
    assert f"**{word}.** The check " in as_markdown(document)
    assert json.loads(as_json(document))["word"] == word
    assert f'<span class="tone">{word}</span>' in as_html(document)


def test_the_generation_that_was_stopped_has_that_end() -> None:
    started = event(name="generation", subject="generation 1", message="", data={"generation": 1, "nodes": ["a"]})
    document = describe(read(plain_run([started, measured("loss", 1, 2.0)], status="stopped")))
    assert "the run was stopped" in as_markdown(document)


def test_a_torn_last_line_and_a_damaged_one() -> None:
    folder = plain_run([measured("loss", 1, 2.0)])
    intact = build(read(folder))
    with (folder / "records.jsonl").open("ab") as file:
        file.write(b'{"kind": "measurement", "na')
    assert build(read(folder)).verdict == intact.verdict
    assert read(folder).unreadable == 0
    with (folder / "records.jsonl").open("ab") as file:
        file.write(b'glued on\n\xff\n[]\n{"kind": "finding"}\n{"kind": "of a later railbed"}\n')
    assert read(folder).unreadable == 5
    assert "5 unreadable records in records.jsonl" in text_of(build(read(folder)))


def test_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        read(tmp_path)


def hostile_records() -> Iterator[Record]:
    yield Finding(
        check=HOSTILE,
        subject=f"{HOSTILE}/{HOSTILE}",
        verdict=Verdict.FAIL,
        expected=HOSTILE,
        observed=HOSTILE,
        why=HOSTILE,
        remedy=HOSTILE,
    )
    yield finding(Verdict.OK, subject=HOSTILE, observed=HOSTILE)
    room = {"ranks": 1, "estimated_rank_bytes": 1, "needed_bytes": 1, "available_bytes": 1}
    yield event(name="estimate", data={"nodes": {HOSTILE: {"device": HOSTILE, **room}}})
    yield event(name="training", subject=HOSTILE, data={"recipe": {HOSTILE: {HOSTILE: HOSTILE}}})
    yield event(name="notice", subject=HOSTILE, message=HOSTILE)
    yield started(1, 1.0, HOSTILE, "b")
    for rank, node in enumerate((HOSTILE, "b")):
        data = {"device_name": HOSTILE, "peak_flops": 1e12, "peak_source": HOSTILE, "transport": HOSTILE, "rank": rank}
        yield event(name="chosen", subject=f"{node}/rank{rank}", data={**data, "torch_version": HOSTILE})
        for name in ("loss", "tokens_per_second", "mfu", "step_seconds", "forward_seconds", "bytes_sent", HOSTILE):
            yield measured(name, 1, 1.5, rank, node)
    rail = {"rail": HOSTILE, "netdev": HOSTILE, "rdma_port": HOSTILE, "rdma_bytes": [1, 2], "tcp_bytes": [1, None]}
    words = {"verdict": "fail", "short": HOSTILE, "transport": HOSTILE, "remedy": HOSTILE}
    nodes = [{"node": HOSTILE, "gradient_bytes": 5, "rails": [rail]}]
    yield event(name="gradient_path", message=HOSTILE, data={**words, "nodes": nodes})
    yield event(name="checkpoint", subject=HOSTILE, message=HOSTILE, data={"step": 1})
    yield event(name="restart", subject=HOSTILE, message=HOSTILE)
    yield started(2, 2.0, HOSTILE)
    yield event(name="sample", data={"text": HOSTILE})
    yield Measurement(name=HOSTILE, value=1.0, unit=HOSTILE)


def test_what_a_device_says_stays_text() -> None:
    folder = plain_run(hostile_records())
    about = json.loads((folder / "run.json").read_text())
    about |= {"cluster": HOSTILE, "arguments": [HOSTILE], "verb": HOSTILE, "version": HOSTILE}
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "cluster.yaml").write_text(HOSTILE)
    page = build(read(folder))
    assert page.sections == DEFAULT_SECTIONS
    tags = tags_of(page)
    assert "img" not in tags.tags
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert tags.tags.count("script") == page.figures + 2
    figures = re.findall(r'class="figure">(.*?)</script>', page.html, re.DOTALL)
    assert len(figures) == page.figures
    for figure in figures:
        assert "<" not in figure
        assert "<script" not in json.dumps(json.loads(figure)), "Plotly reads tags in its texts"
    assert "\u202e" not in page.html
    assert "alert(1)" in text_of(page).replace("&lt;", "<")


def test_the_policy_allows_our_scripts_only_and_no_network() -> None:
    policy = _policy(["one", "two"])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "http" not in policy


def test_what_is_quoted_as_code_is_code_and_still_escaped() -> None:
    html = page_of(event(name="notice", message="say `<b>` or a lone ` tick")).html
    assert "say <code>&lt;b&gt;</code> or a lone ` tick" in html


def test_secrets_do_not_reach_the_page() -> None:
    folder = plain_run()
    (folder / "cluster.yaml").write_text("name: x\npassword: hunter2\n")
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**about, "arguments": ["train", "--set", "token=hunter2"]}))
    assert "hunter2" not in build(read(folder)).html


def test_ten_thousand_steps_stay_small() -> None:
    records = [
        measured(name, step, (1.0 if step != 7777 else 50.0) + step % 7 * 0.123456789, 0, "n0")
        for step in range(1, 10_001)
        for name in ("loss", "step_seconds", "forward_seconds")
    ]
    page = page_of(*records)
    figures = [json.loads(block) for block in re.findall(r'class="figure">(.*?)</script>', page.html, re.DOTALL)]
    assert all(len(trace["x"]) <= MOST for figure in figures for trace in figure["data"])
    assert any(max(trace["y"]) >= 50 for trace in figures[0]["data"]), "the extreme is kept"
    assert sum(map(len, re.findall(r'class="figure">(.*?)</script>', page.html, re.DOTALL))) < 300_000


def test_thinning_keeps_ends_extremes_and_gaps() -> None:
    values = [math.sin(index / 50) for index in range(10_000)]
    values[4321], values[8765], values[6000] = 99.0, -99.0, math.nan
    points = downsample(values)
    assert len(points) <= MOST
    assert {0, 4321, 6000, 8765, 9999} <= set(points)
    assert points == sorted(points)
    assert downsample(values[:MOST]) == list(range(MOST))
    assert len(downsample([math.nan] * 9000)) <= MOST


def test_steps_that_were_done_again_count_once() -> None:
    records: list[Record] = [started(1, 0.0, "a", "b")]
    records += [measured("loss", step, 9.0) for step in range(1, 11)]
    records += [measured("step_seconds", step, 4.0, rank, "ab"[rank]) for step in range(1, 11) for rank in (0, 1)]
    records.append(event(name="restart", subject="b", message="b: gone", time=STARTED + 20))
    records.append(started(2, 25.0, "a"))
    records.append(event(name="resumed", data={"step": 5}, time=STARTED + 30))
    records += [measured("loss", step, 1.0) for step in range(6, 21)]
    records += [measured("step_seconds", step, 2.0) for step in range(6, 21)]
    run = read(plain_run(records))
    points = run.series["loss"].mean()
    assert list(points.steps) == list(range(1, 21))
    assert list(points.values) == [9.0] * 5 + [1.0] * 15
    assert list(run.series["step_seconds"].mean().values) == [4.0] * 5 + [2.0] * 15
    (restart,) = restarts(run)
    assert (restart.who, restart.why, restart.seconds, restart.steps_again) == ("b", "b: gone", 10.0, 5)
    # No record tells what it cost: an older railbed made them.
    words = "Training continued on a, from the state of step 5, 10.0 s after it was noticed; 5 steps were repeated."
    assert words in text_of(build(run))
    assert "lost at least 10.0 s" in build(run).verdict


def test_a_restart_costs_all_the_time_without_progress_and_has_the_reason_that_was_found() -> None:
    caught_up = {"lost_seconds": 35.0, "unnoticed_seconds": 4.5, "stopped_seconds": 11.3, "again_seconds": 19.2}
    cut = "a does not reach it over the rail: no answer"
    records = [
        started(1, 0.0, "a", "b"),
        event(name="node_cut", subject="a", message="of an earlier time", time=STARTED + 1),
        event(name="restart", subject="", message="no step for 4.5 s", time=STARTED + 20),
        event(name="node_cut", subject="b", message=cut, time=STARTED + 24),
        started(2, 25.0, "a"),
        event(name="caught_up", data={**caught_up, "steps_again": 6, "restarts": 1}, time=STARTED + 60),
    ]
    run = read(plain_run(records))
    (restart,) = restarts(run)
    assert (restart.seconds, restart.is_least, restart.causes) == (35.0, False, [("b", cut)])
    text = text_of(build(run))
    assert f"{cut} (first noticed as: no step for 4.5 s)" in text
    assert (
        "35.0 s were lost: 4.50 s until it was noticed, 11.3 s until the next step and 19.2 s to repeat 6 steps" in text
    )
    assert "it restarted once and lost 35.0 s" in build(run).verdict


def test_a_restart_is_shown_with_what_had_changed_since_the_launch() -> None:
    texts = {"subject": "b/eth1", "observed": "MTU 1400", "remedy": "ip link set dev eth1 mtu 9000"}
    records: list[Record] = [
        finding(Verdict.OK, check="link_up", subject="b/eth1"),
        started(1, 0.0, "a", "b"),
        event(name="restart", message="no step for 4.5 s", data={"generation": 1}, time=STARTED + 20),
        finding(Verdict.FAIL, check="mtu", generation=1, before="MTU 9000", time=STARTED + 21, **texts),
        finding(Verdict.FAIL, check="bond", generation=2, time=STARTED + 21, **texts),
        finding(Verdict.FAIL, check="firewall", generation=1, time=STARTED + 500, **texts),
        started(2, 25.0, "a", "b"),
    ]
    run = read(plain_run(records))
    (restart,) = restarts(run)
    assert [change.check for change in restart.before.changes] == ["mtu"]
    listing = "b/eth1: MTU 1400, before the launch: MTU 9000 (mtu). ip link set dev eth1 mtu 9000"
    assert f"Changed since the launch: {listing}" in text_of(build(run))
    assert [finding.check for finding in run.findings] == ["link_up"]


def test_restarts_that_were_made_good_together_count_once() -> None:
    records = [
        started(1, 0.0, "a"),
        event(name="restart", subject="a", message="a: gone", time=STARTED + 20),
        started(2, 25.0, "a"),
        event(name="restart", subject="a", message="a: gone again", time=STARTED + 30),
        started(3, 35.0, "a"),
        event(name="caught_up", data={"lost_seconds": 30.0, "restarts": 2}, time=STARTED + 50),
    ]
    run = read(plain_run(records))
    assert [restart.seconds for restart in restarts(run)] == [None, 30.0]
    assert "it restarted twice and lost 30.0 s" in build(run).verdict


def test_a_restart_that_nothing_came_after() -> None:
    run = read(plain_run([started(1, 0.0, "a"), event(name="restart", subject="a", message="a: gone")]))
    assert "Training did not continue after this." in text_of(build(run))


def test_findings_stand_by_node_with_the_worst_first() -> None:
    records = [
        finding(Verdict.OK, subject="a"),
        finding(Verdict.WARN, check="governor", subject="b"),
        finding(Verdict.FAIL, check="mtu", subject="b/eth1", expected="9000", observed="1500", remedy="ip link …"),
        finding(Verdict.UNKNOWN, subject="c"),
    ]
    run = read(plain_run(records, verb="check", code=1))
    blocks = findings.show(run) or []
    (entries, *_) = [block for block in blocks if isinstance(block, Entries)]
    assert [(entry.mark.text, entry.title) for entry in entries.items] == [
        ("fail", "mtu on eth1"),
        ("warn", "governor"),
    ]
    assert entries.items[0].advice == "ip link …"
    assert entries.items[0].text == "1500; expected 9000"
    page = build(run)
    assert page.verdict == "The check took 12.5 s: 1 finding failed on b."
    assert 'class="bad"' in page.html


@pytest.mark.parametrize(
    ("values", "words", "tone"),
    [
        ([5.0, 4.0, 3.0], "fell from 5.000 to 3.000 in 3 steps", "good"),
        ([3.0, 3.0, 3.0], "so it did not fall", "notice"),
        ([3.0, math.nan, math.nan], "not a number", "bad"),
    ],
)
def test_the_verdict_on_the_loss(values: list[float], words: str, tone: str) -> None:
    run = read(plain_run(measured("loss", step, value) for step, value in enumerate(values, start=1)))
    headline = loss.headline(run)
    assert headline is not None
    assert words in headline.text.replace(JOIN, " ")
    assert headline.tone == tone
    json.dumps([block.traces for block in loss.show(run) or () if isinstance(block, Figure)], allow_nan=False)
    assert build(run).verdict


def test_a_run_that_stopped_early_says_how_far_it_came() -> None:
    started_event = event(name="training", data={"run": "x", "recipe": {"steps": 1000, "model": {"layers": 4}}})
    page = page_of(started_event, *(measured("loss", step, 9.0 - step) for step in (1, 2, 3)))
    assert "the loss fell from 8.000 to 6.000 in 3 of 1,000 steps" in page.verdict
    assert "model.layers" in text_of(page)


def test_steps_without_a_loss_are_reported() -> None:
    records = [measured("step_seconds", step, 1.0) for step in (1, 2, 3)]
    page = page_of(*records, measured("loss", 1, 3.0))
    assert "2 steps have no loss" in text_of(page)
    assert "the loss was not a number in" in page.verdict


def test_a_step_that_compiles_does_not_hide_the_others() -> None:
    long = {1: 25.0}
    records = [measured("step_seconds", step, long.get(step, 0.2)) for step in range(1, 9)]
    records += [measured("forward_seconds", step, long.get(step, 0.1)) for step in range(1, 9)]
    words, _, table = time.show(read(plain_run(records))) or ()
    assert isinstance(words, TextBlock)
    assert words.text.startswith("Not drawn: step 1, ")
    assert "(25.0 s)" in words.text.replace(JOIN, " ")
    assert isinstance(table, TableBlock)
    assert [str(cell).replace(JOIN, " ") for cell in table.rows[0]] == ["forward", "100 ms", "50.0 %"]


def test_time_that_no_part_accounts_for_is_shown() -> None:
    records = [measured(name, 1, value) for name, value in (("step_seconds", 1.0), ("forward_seconds", 0.4))]
    table = next(block for block in time.show(read(plain_run(records))) or () if isinstance(block, TableBlock))
    assert [(row[0], str(row[2]).replace(JOIN, " ")) for row in table.rows] == [
        ("forward", "40.0 %"),
        ("not accounted for", "60.0 %"),
        ("whole step", "100 %"),
    ]


def test_what_was_not_measured_is_unknown_and_not_zero() -> None:
    run = read(plain_run([measured("step_seconds", 1, 1.0)]))
    table = next(block for block in ranks.show(run) or () if isinstance(block, TableBlock))
    assert [str(cell) for cell in table.rows[0][5:]] == ["unknown"] * 5
    run = read(plain_run([measured("mfu", 1, 0.4)]))
    facts = next(block for block in speed.show(run) or () if isinstance(block, Facts))
    assert ("counted against", "unknown") in facts.items


def test_peaks_of_many_ranks_are_one_range() -> None:
    chosen = [
        event(name="chosen", data={"peak_flops": flops, "peak_source": "measured"}) for flops in (3e10, 4e10, 3e10)
    ]
    facts = next(block for block in speed.show(read(plain_run([*chosen, measured("mfu", 1, 0.4)]))) or ())
    assert isinstance(facts, Facts)
    assert facts.items[-1] == ("counted against", f"30.0 to 40.0{JOIN}GFLOP/s (measured)")


def test_many_ranks_are_a_table_of_some() -> None:
    run = read(plain_run([measured("step_seconds", 1, 1.0, rank, f"n{rank}") for rank in range(100)]))
    assert "36 more ranks are not in the table" in text_of(build(run))


def test_how_the_batch_is_shared_is_reported() -> None:
    shares = [event(name="shares", message=words, data={"step": 8}) for words in ("a takes 1", "a takes 12 of 16, b 4")]
    page = text_of(build(read(plain_run([measured("step_seconds", 1, 1.0), *shares]))))
    assert "Since step 8: a takes 12 of 16, b 4." in page
    assert "a takes 1." not in page


def test_simulated_numbers_say_so() -> None:
    run = read(plain_run([Measurement(name="bandwidth", value=5.0, unit="Gbit/s", source="simulated")]))
    table = next(block for block in method.show(run) or () if isinstance(block, TableBlock))
    assert table.rows[0][1] == "simulated"


def test_sections_with_nothing_to_say_are_left_out() -> None:
    run = read(plain_run())
    for section in (findings, loss, speed, time, ranks, nodes, sample, method):
        assert section.show(run) is None
    assert setup.show(run)


@pytest.mark.parametrize("data", [{}, {"text": ""}, {"tokens": []}])
def test_a_sample_without_text(data: dict[str, object]) -> None:
    assert sample.show(read(plain_run([event(name="sample", data=data)]))) is None


def test_tokens_that_nobody_decoded() -> None:
    page = page_of(event(name="sample", data={"tokens": [1, 2], "step": 5}))
    assert "The model generated 2 tokens after step 5" in text_of(page)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (seconds(0), "0 s"),
        (seconds(0.0000123), "12.3 µs"),
        (seconds(0.0421), "42.1 ms"),
        (seconds(9.5), "9.50 s"),
        (seconds(59.999), "60.0 s"),
        (seconds(61), "1 min 1 s"),
        (seconds(7260), "2 h 1 min"),
        (seconds(200_000), "2 d 7 h"),
        (seconds(math.nan), "unknown"),
        (size(999), "999 B"),
        (size(25_400_000), "25.4 MB"),
        (size(999_999), "1.00 MB"),
        (percent(0.305), "30.5 %"),
        (plural(1, "step"), "1 step"),
        (plural(1200, "step"), "1,200 steps"),
        (join_names(["a", "b", "c"]), "a, b and c"),
        (join_names(["a"]), "a"),
        (join_names([]), ""),
        (clean("a\tb\x00\ud800"), "a\tb��"),
    ],
)
def test_words(text: str, wanted: str) -> None:
    assert text.replace(JOIN, " ") == wanted


def test_names_in_the_order_in_which_people_count() -> None:
    names = ["node10", "node9", "b", "rail1-node2", "rail1-node10", "7", "node"]
    assert sorted(names, key=natural_order) == ["7", "b", "node", "node9", "node10", "rail1-node2", "rail1-node10"]


@pytest.mark.parametrize(
    ("verdicts", "message", "worded"),
    [
        ([Verdict.OK], "1 finding passed", "All passed"),
        ([Verdict.OK] * 2, "2 findings passed", "All passed"),
        ([Verdict.OK, *[Verdict.SKIPPED] * 2], "1 finding passed, 2 skipped", "All passed"),
        ([Verdict.SKIPPED], "nothing was judged, 1 finding skipped", "Needs attention"),
    ],
)
def test_what_was_skipped_is_not_said_to_be_well(verdicts: list[Verdict], message: str, worded: str) -> None:
    page = page_of(*(finding(verdict, check=f"rule{number}") for number, verdict in enumerate(verdicts)))
    assert message in page.verdict.replace(JOIN, " ")
    assert worded in text_of(page)
