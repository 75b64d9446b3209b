"""`report --cluster`: the page for whoever takes a cluster over, from its file, recordings, runs and notes."""

from __future__ import annotations

import re
import shutil
import time
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import railbed
from railbed.api import handover
from railbed.api.reach import Reach
from railbed.errors import UsageError
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts, Known, Output
from railbed.model.record import Measurement
from railbed.present.wording import JOIN
from railbed.probes.outputs import all_probes
from railbed.report.blocks import BulletBlock, Facts, Heading, ListBlock, MapBlock, TextBlock
from railbed.report.handover import HandoverData, describe_cluster, notes
from railbed.report.handover.inventory import inventory
from railbed.store import Store, open_run
from railbed.transport.record import OutputRecorder
from tests.support import cli
from tests.support.browser import Browser
from tests.support.recordings import make_recording, recorded_output

CASES = Path(__file__).parent / "cases" / "probes"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
SITE = """\
name: site
login: {user: ada, key: ~/.ssh/lab, sudo: {keyring: lab/ada}}
rails:
  rail0: {subnet: 10.77.0.0/24, speed: 100}
nodes:
  node1:
    host: 10.0.2.11
    ports:
      - {netdev: ens1, rdma: mlx5_0, rail: rail0, address: 10.77.0.1}
    gpus: [{name: NVIDIA H200, memory_gb: 143}]
  node2:
    host: 10.0.2.12
    ports:
      - {netdev: ens1, rdma: mlx5_0, rail: rail0, address: 10.77.0.2}
switches:
  leaf1:
    host: 10.0.2.2
    login: {user: admin, password: {env: LEAF_PASSWORD}}
    ports:
      - {name: Ethernet1/1, node: node1, netdev: ens1}
      - {name: Ethernet1/2, node: node2, netdev: ens1}
"""
OUTPUTS = {
    "gpu": "h200_temperature_and_power",
    "block_devices": "old_texts",
    "cpu": "epyc_nested",
    "memory": "gpu_server_swapping",
    "nexus_version": "n9k_json",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cluster file and no runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAILBED_RUNS", raising=False)
    (tmp_path / "cluster.yaml").write_text(SITE)
    return tmp_path


def printed(probe: str) -> str:
    return (CASES / probe / f"{OUTPUTS[probe]}.txt").read_text()


def record(folder: Path, *devices: str) -> Path:
    """Write a recording of some devices of the site."""
    folder.mkdir(parents=True)
    (folder / "cluster.yaml").write_text(SITE)
    with OutputRecorder(folder) as recorder:
        for device in devices:
            for probe in OUTPUTS:
                if all_probes()[probe].runs_on == ("switch" if device == "leaf1" else "node"):
                    recorder.store(recorded_output(device, probe, printed(probe)))
    return folder


def text_of(page: bytes) -> str:
    without = re.sub(r"<(style|script).*?</\1>", "", page.decode(), flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", " ", without)).replace(JOIN, " ")


def test_without_a_run_the_page_names_the_commands_that_fill_it(site: Path) -> None:
    page = text_of(railbed.report(cluster="cluster.yaml"))
    for words in (
        "2 nodes, 1 GPU, 1 rail and 1 switch: nothing was checked yet.",
        "nothing was checked yet → railbed check",
        "railbed bench full --save-baseline",
        "edit cluster.notes.md",
        "runs has no run of this cluster",
        "the keyring entry lab/ada",
        "the environment variable LEAF_PASSWORD",
        "NVIDIA H200",
    ):
        assert words.replace("→ ", "") in re.sub(r"\s+", " ", page), words
    assert not (site / "runs").exists()
    assert [path.name for path in site.iterdir()] == ["cluster.yaml"]


def test_a_recording_is_judged_and_listed(site: Path) -> None:
    (site / "cluster.yaml").unlink()
    record(site / "recording", "node1", "leaf1")
    result = cli.railbed(site, "report", "--cluster", "--replay", "recording", "--json")
    assert result.code == 0, result.err
    data = {record["subject"]: record["data"] for record in result.records}
    assert data["node1"]["host"] == "10.0.2.11"
    assert data["node1"]["memory_bytes"] > 10**9
    assert "memory_bytes" not in data["node2"]
    assert data["node1/gpu0"]["temperature_celsius"] == 36
    assert data["node1/gpu0"]["power_watts"] == 78.14
    assert data["node1/nvme0n1"]["model"] == "Samsung SSD 990 PRO 2TB"
    assert data["leaf1"]["model"].startswith("Nexus9000")
    page = text_of((site / data["site"]["file"]).read_bytes())
    assert "As the recording recording shows it" in page
    assert "36 °C" in page
    assert "never read: node2" in page
    assert data["site"]["file"] == "site.report.html"
    assert "report --cluster --replay recording" in page


def test_facts_are_the_newest_of_each_device(site: Path) -> None:
    record(site / "both", "node1", "node2", "leaf1")
    record(site / "later", "node1")
    for recording in ("both", "later"):
        railbed.check("cluster.yaml", reach=Reach(replay=site / recording)).result()
        time.sleep(1.1)  # names of runs have seconds
    data = handover.read_handover("cluster.yaml", Reach(), Store())
    assert {machine.subject: machine.memory_bytes is not None for machine in data.of(events.MachineListed)} == {
        "node1": True,
        "node2": True,
    }
    assert data.check is not None
    assert data.check.summary.id == data.runs[0].id
    assert any(finding.subject == "node2" and finding.check == "reachable" for finding in data.check.findings)
    railbed.check("cluster.yaml", rules=["disk_space"], reach=Reach(replay=site / "both")).result()
    again = handover.read_handover("cluster.yaml", Reach(), Store())
    assert len(again.runs) == 3
    assert again.check is not None
    assert again.check.summary.id == data.check.summary.id, "a check of one rule is not the state of the cluster"
    assert text_of(railbed.report(cluster="cluster.yaml")).count("-check") >= 3


def test_notes_are_created_once_shown_and_preserved(site: Path) -> None:
    first = cli.railbed(site, "report", "--cluster")
    assert (first.code, first.out) == (0, "cluster.report.html\n")
    assert "cluster.notes.md" in first.err
    path = site / "cluster.notes.md"
    assert path.read_text() == notes.TEMPLATE.format(name="site")
    path.write_text(f"# Mine\n\nThe console is in rack 3. {HOSTILE}\n\n- ask Ada\n")
    second = cli.railbed(site, "report", "--cluster", "cluster.yaml")
    assert (second.code, second.err) == (0, "")
    assert path.read_text().startswith("# Mine\n")
    page = text_of((site / "cluster.report.html").read_bytes())
    assert "The console is in rack 3." in page
    assert "ask Ada" in page
    assert "nobody has written any" not in page
    markdown = cli.railbed(site, "report", "-c", "--format", "md", "-o", "-")
    assert "ask Ada" in markdown.out
    assert "The console is in rack 3." in markdown.out


def test_a_link_is_not_followed_for_notes(site: Path) -> None:
    secret = site / "secret"
    secret.write_text("not for others")
    (site / "cluster.notes.md").symlink_to(secret)
    with pytest.raises(UsageError, match=r"the notes cluster\.notes\.md cannot be read: is a link"):
        railbed.report(cluster="cluster.yaml")
    assert notes.create(site / "cluster.notes.md", "site") is False
    assert secret.read_text() == "not for others"


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def test_nothing_on_the_page_becomes_markup_or_leaves_the_page(site: Path) -> None:
    (site / "cluster.yaml").write_text(SITE.replace("NVIDIA H200", "<script>alert(1)</script>"))
    (site / "cluster.notes.md").write_text(
        f"# {HOSTILE}\n- {HOSTILE}\n\n```\n{HOSTILE}\n```\n[x](http://foreign.example)\n"
    )
    with open_run("train", cluster_name="site", cluster_text=SITE, arguments=["train", HOSTILE], store=Store()) as run:
        run.append(Measurement(name="mfu", value=0.4, unit="1", labels={"step": 1, "node": HOSTILE}))
        run.finish("done", 0)
    page = railbed.report(cluster="cluster.yaml").decode()
    tags = Tags()
    tags.feed(page)
    assert tags.tags.isdisjoint({"script", "img", "iframe", "link", "form", "object"})
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert {value for name, value in tags.attributes if name in ("href", "src")} <= {
        f"#{name}" for name in re.findall(r'<section id="(\w+)">', page)
    }
    assert "default-src &#39;none&#39;" in page
    assert "![" not in railbed.report(cluster="cluster.yaml", form="md").decode()


def test_runs_of_others_are_data(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(site / "recording", "node1")
    railbed.check("cluster.yaml", reach=Reach(replay=site / "recording")).result()
    monkeypatch.setattr(handover, "is_own_folder", lambda _: False)
    assert text_of(railbed.report(cluster="cluster.yaml")).count("(of another user)") == 2, "the state and the run"
    (run,) = (site / "runs").iterdir()
    shutil.rmtree(run / "raw")
    (run / "records.jsonl").write_text("{damaged\n")
    page = text_of(railbed.report(cluster="cluster.yaml"))
    assert "never read: node1, node2" in page


@pytest.mark.usefixtures("site")
def test_best_figures_and_the_baseline() -> None:
    labels: dict[str, str | int] = {"test": "write_bw", "from": "node1", "to": "node2", "rail": "rail0", "size": 65536}
    for value in (90.0, 97.5, 80.0):
        with open_run("bench", cluster_name="site", cluster_text=SITE, arguments=["bench"], store=Store()) as run:
            run.append(Measurement(name="bandwidth", value=value, unit="Gb/s", labels=labels))
            run.append(Measurement(name="half_round_trip", value=value, unit="us", labels=labels))
            run.finish("done", 0)
    railbed.save_baseline(railbed.read_run(), "cluster.baseline.json")
    data = handover.read_handover("cluster.yaml", Reach(), Store())
    assert {figure.measure: figure.value for figure in data.best} == {"bandwidth": 97.5, "half_round_trip": 80.0}
    assert data.baseline is not None
    page = text_of(railbed.report(cluster="cluster.yaml"))
    assert "97.50 Gb/s" in page
    assert f"of {data.baseline.run}, saved" in page
    assert "nothing shows how fast" not in page


def test_what_the_command_line_refuses(site: Path) -> None:
    assert "--replay is for the page of a cluster" in cli.railbed(site, "report", "--replay", "x").err
    refused = cli.railbed(site, "report", "--cluster", "--format", "csv")
    assert (refused.code, "no table of measurements" in refused.err) == (2, True)
    missing = cli.railbed(site, "report", "--cluster", "missing.yaml")
    assert missing.code == 2
    assert not (site / "missing.notes.md").exists()


def test_this_machine_without_a_file(site: Path) -> None:
    (site / "cluster.yaml").unlink()
    result = cli.railbed(site, "report", "--cluster")
    assert (result.code, result.out) == (0, "local.report.html\n")
    page = text_of((site / "local.report.html").read_bytes())
    assert "railbed discover HOST…" in page
    assert not list(site.glob("*.md"))


def test_blocks_of_notes() -> None:
    text = (
        "# Title #\n<!-- not\nshown -->\nfirst\nsecond\n- a\n  more\n* b\n2) c\n\nafter\n~~~\n# code\n- x\n~~~\n"
        "```sh\nunclosed"
    )
    assert list(notes.blocks_of(text)) == [
        Heading("Title"),
        TextBlock("first second"),
        BulletBlock(("a more", "b", "c")),
        TextBlock("after"),
        ListBlock("# code\n- x"),
        ListBlock("unclosed\n"),
    ]
    assert list(notes.blocks_of("")) == []


def test_secrets_in_notes_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "cluster.notes.md"
    path.write_text("password: hunter2\nthe rest\n")
    assert "hunter2" not in notes.read(path, "site")
    assert "the rest" in notes.read(path, "site")


def data_of(cluster: Cluster) -> HandoverData:
    return HandoverData(
        cluster=cluster, file=None, made=0.0, inventory=[*inventory(cluster, {})], check=None, runs_folder=Path("runs")
    )


def drawing_of(cluster: Cluster) -> MapBlock:
    blocks = next(part.blocks for part in describe_cluster(data_of(cluster)).parts if part.name == "drawing")
    (drawn,) = blocks
    assert isinstance(drawn, MapBlock)
    return drawn


def wide_cluster(nodes: int, rails: int = 2) -> Cluster:
    return Cluster.model_validate(
        {
            "name": "wide",
            "rails": {f"rail{rail}": {"subnet": f"10.{rail}.0.0/16"} for rail in range(rails)},
            "nodes": {
                f"node{number}": {
                    "host": f"10.9.0.{number}",
                    "ports": [
                        {"netdev": f"ens{rail}", "rail": f"rail{rail}", "address": f"10.{rail}.0.{number}"}
                        for rail in range(rails)
                    ],
                }
                for number in range(1, nodes + 1)
            },
        }
    )


def test_the_drawing_has_a_line_for_each_link_and_groups_many_nodes() -> None:
    few = drawing_of(wide_cluster(8))
    assert [box.text for box in few.boxes if box.is_switch] == ["rail0", "rail1"]
    assert len(few.boxes) == 10
    assert len(few.lines) == len(few.table.rows) == 16
    assert few.width <= 440, "readable at the width of a phone"
    assert few.keys == [("rail0", 1), ("rail1", 2)]
    many = drawing_of(wide_cluster(200))
    assert [box.text for box in many.boxes] == ["node1–node200", "rail0", "rail1"]
    assert sorted(line.text.replace(JOIN, " ") for line in many.lines) == ["rail0: 200 links", "rail1: 200 links"]
    assert len(many.table.rows) == 400


def test_a_cable_between_two_nodes_is_one_line() -> None:
    cluster = Cluster.model_validate(
        {
            "name": "pair",
            "rails": {"rail0": {"point_to_point": True, "speed": 200}},
            "nodes": {
                name: {"host": name, "ports": [{"netdev": "ens1", "rail": "rail0", "address": f"10.0.0.{at}"}]}
                for at, name in enumerate(("a", "b"), 1)
            },
        }
    )
    drawn = drawing_of(cluster)
    assert [line.text for line in drawn.lines] == ["rail0: a/ens1 – b ens1"]
    assert len({(line.x1, line.y1, line.x2, line.y2) for line in drawn.lines}) == 1
    assert [box.text for box in drawn.boxes] == ["a", "b"]


def test_what_was_not_read_is_unknown_and_not_zero() -> None:
    cluster = Cluster.model_validate({"name": "lab", "nodes": {"node1": {"host": "node1"}}})
    (machine,) = inventory(cluster, {})
    assert machine.data == {"host": "node1"}
    output = Output(device="node1", key="memory", command="", stdout=b"", exit=0, sent=1.0, received=2.0)
    facts = all_probes()["memory"].parse(printed("memory"))
    known = DeviceFacts(device="node1", readings={"memory": (Known(facts=facts, output=output),)})
    (machine,) = inventory(cluster, {"node1": known})
    assert isinstance(machine, events.MachineListed)
    assert machine.read == 2.0
    assert machine.memory_bytes
    assert machine.torch is None
    first = describe_cluster(data_of(cluster)).parts[0]
    assert next(block.items[0][0] for block in first.blocks if isinstance(block, Facts)) == "nodes"


def test_the_page_of_a_real_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recording = make_recording("two-roce-vms", tmp_path / "recording")
    page = text_of(railbed.report(reach=Reach(replay=recording)))
    for words in (
        "MT4117 (MT_2420110034)",
        "14.32.1010",
        "Nexus9000 C93180YC-FX3 Chassis",
        "10.4(3)",
        "Ubuntu 22.04.5",
    ):
        assert words in page
    assert "ip link set dev ens192 mtu 9000" in page


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_in_a_browser(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    page.write_bytes(railbed.report(reach=Reach(replay=make_recording("two-roce-vms", tmp_path / "recording"))))
    browser.open(page)
    for width in browser.looks("handover"):
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        drawn = browser.evaluate("document.querySelector('.map svg').getBoundingClientRect().width")
        assert 150 <= drawn <= width
        assert browser.evaluate("document.querySelectorAll('.map line').length") == 2
    assert browser.requests == [page.resolve().as_uri()]
    assert browser.complaints == []
