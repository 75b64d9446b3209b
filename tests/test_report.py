"""The report from a user's point of view: the command, and the page in a real browser, opened from disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.model.record import Verdict
from tests.support.browser import Browser
from tests.support.cli import railbed
from tests.support.runs import finding, plain_run, training_run
from tests.test_cli import assert_one_sentence

pytestmark = pytest.mark.whole

GROUNDS = """[
    getComputedStyle(document.body).backgroundColor,
    document.querySelector('svg.main-svg').style.background,
]"""


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_the_newest_run_by_name_and_by_folder(tmp_path: Path) -> None:
    plain_run()
    newest = training_run()
    for arguments in ([], [newest.name], [newest], [f"runs/{newest.name}/."]):
        result = railbed(tmp_path, "report", *arguments)
        assert (result.code, result.err) == (0, ""), result
        page = newest / "report.html"
        assert (tmp_path / result.out.strip()).resolve() == page.resolve()
        assert page.read_text().startswith("<!doctype html>")
        page.unlink()
    assert [path.name for path in newest.iterdir() if path.name.startswith(".")] == []


def test_elsewhere_and_as_json(tmp_path: Path) -> None:
    run = plain_run([finding(Verdict.OK)], verb="check")
    result = railbed(tmp_path, "report", run.name, "--output", "page.html", "--json")
    assert result.code == 0
    (record,) = result.records
    assert (record["kind"], record["name"], record["subject"]) == ("event", "report", run.name)
    assert record["data"]["file"] == "page.html"
    assert record["data"]["sections"] == ["verdict", "findings", "setup"]
    assert (tmp_path / "page.html").exists()
    assert not (run / "report.html").exists()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    plain_run()
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    assert railbed(tmp_path, "report", "-o", "link.html").code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() != "old"


@pytest.mark.parametrize("target", ["precious", "folder", "missing", "report.html"])
def test_a_link_that_is_planted_in_the_run_is_replaced(tmp_path: Path, target: str) -> None:
    run = plain_run()
    (tmp_path / "precious").write_text("old")
    (tmp_path / "folder").mkdir()
    planted = run / "report.html"
    planted.symlink_to("report.html" if target == "report.html" else tmp_path / target)
    assert railbed(tmp_path, "report", run).code == 0
    assert not planted.is_symlink()
    assert planted.read_text().startswith("<!doctype html>")
    assert (tmp_path / "precious").read_text() == "old"
    assert not (tmp_path / "missing").exists()


def test_wrong_input_is_one_sentence(tmp_path: Path) -> None:
    assert_one_sentence(railbed(tmp_path, "report"), 2, "there is no run in", "railbed check")
    run = plain_run()
    (tmp_path / "loop").symlink_to("loop")
    for wrong in ("nothing", "20200101-000000-check", "../../etc", ""):
        assert_one_sentence(railbed(tmp_path, "report", wrong), 2, "no run")
    assert_one_sentence(railbed(tmp_path, "report", "."), 2, ". is not a run")
    assert_one_sentence(railbed(tmp_path, "report", run, "-o", "/dev/null"), 2, "/dev/null: it is not a file")
    assert_one_sentence(railbed(tmp_path, "report", run, "-o", "."), 2, "it is not a file")
    assert_one_sentence(railbed(tmp_path, "report", run, "-o", "no/such/folder/x.html"), 2, "No such file or directory")
    assert_one_sentence(railbed(tmp_path, "report", run, "-o", "loop"), 2, "cannot write the page to loop")
    assert_one_sentence(
        railbed(tmp_path, "report", run, "-o", "/proc/x.html"), 2, "cannot write the page to /proc/x.html"
    )
    assert_one_sentence(railbed(tmp_path, "report", "a", "b"), 2, "b")
    assert Path("/dev/null").is_char_device()


def plots(browser: Browser) -> list[float]:
    """The widths of the plots that have something drawn in them."""
    drawn = "svg.main-svg path.js-line, svg.main-svg .points path, svg.main-svg path.js-fill"
    values = browser.evaluate(
        "[...document.querySelectorAll('.plot')].filter(plot => "
        f"plot.querySelector('{drawn}')).map(plot => plot.querySelector('svg').getBoundingClientRect().width)"
    )
    assert isinstance(values, list)
    return values


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    run = training_run()
    railbed(tmp_path, "report")
    browser.open(run / "report.html")
    colours = set()
    for width in browser.looks("report"):
        widths = plots(browser)
        assert len(widths) == 10
        assert max(widths) <= width
        colours.add(tuple(browser.evaluate(GROUNDS)))
    assert len(colours) == 2, "dark differs from light, on the page and in the plots"
    browser.print(tmp_path / "report.pdf")
    assert len(plots(browser)) == 10
    assert browser.requests == [(run / "report.html").resolve().as_uri()]
    assert browser.complaints == []


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_policy_holds(browser: Browser, tmp_path: Path) -> None:
    """Even markup that got into the page runs nothing and fetches nothing."""
    run = training_run(steps=10, fails_at=None)
    railbed(tmp_path, "report")
    page = run / "report.html"
    planted = '<script>window.planted = 1</script><img src="https://example.com/x.png" onerror="window.planted = 2">'
    planted += '<script src="https://example.com/x.js"></script>'
    page.write_text(page.read_text().replace("</main>", planted + "</main>"))
    browser.open(page)
    fetched = "fetch('https://example.com/').then(() => 'fetched', () => 'refused')"
    assert browser.evaluate(fetched) == "refused"
    assert browser.evaluate("typeof window.planted") == "undefined"
    assert len(plots(browser)) > 0
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)
