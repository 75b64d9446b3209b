"""The work of `railbed diagnose`: choose a run, judge it, show the verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from railbed.api.exits import FOUND, OK
from railbed.api.kinds import SAMPLED
from railbed.api.verbs.diagnose import cluster_file_of, judge_run
from railbed.catalog import choose
from railbed.cli.chosen import chosen_run
from railbed.cli.explain import explain_rule
from railbed.cli.hints import use_cluster_file
from railbed.cli.screens.base import JsonScreen
from railbed.cli.verbs.diagnose.follow import moment
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.model.record import Finding, Verdict
from railbed.store.timeline import Timeline


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    rules = DIAGNOSE_BOOK.rules
    return explain_rule(choose(rules, name, kind="rule", listing=f"the rules are {', '.join(rules)}"), as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseRequest:
    """What to show of a run."""

    since: str | None = None
    json: bool = False
    everything: bool = False
    follow: bool = False


def diagnose_run(name: str | None, request: DiagnoseRequest) -> int:
    """Diagnose a run and return the exit code."""
    folder = chosen_run(name, SAMPLED)
    timeline = Timeline(folder)
    use_cluster_file(cluster_file_of(timeline.summary.arguments))
    since = None if request.since is None else moment(request.since, timeline.end)
    if request.follow and timeline.live:
        # Imported here because few need it.
        from railbed.cli.verbs.diagnose.follow import JsonView, TextView, follow_run

        view = JsonView() if request.json else TextView(timeline, everything=request.everything, since=since)
        return _exit_code(follow_run(folder, timeline, lambda: judge_run(folder, timeline, since=since), view))
    findings = judge_run(folder, timeline, since=since)
    if request.json:
        screen = JsonScreen()
        for finding in findings:
            screen.show(finding)
    else:
        # Imported here because drawing is slow to load.
        from railbed.cli.verbs.diagnose.show import show_verdicts

        show_verdicts(timeline, findings, everything=request.everything, since=since)
    return _exit_code(findings)


def _exit_code(findings: Iterable[Finding]) -> int:
    return FOUND if any(finding.verdict is Verdict.FAIL for finding in findings) else OK
