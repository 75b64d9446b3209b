"""The work of `railbed diagnose`: choose a run, judge it, show the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from railbed.api.exits import FOUND, OK
from railbed.catalog import choose
from railbed.cli.hints import advised, use_cluster_file
from railbed.cli.run_kinds import SAMPLED, chosen_run
from railbed.cli.screens.json import JsonScreen
from railbed.cli.verbs.diagnose.since import moment
from railbed.diagnose.evidence import Evidence
from railbed.diagnose.judge import all_rules, diagnose
from railbed.errors import ClusterFileError, UsageError
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Verdict
from railbed.store.run_cluster import cluster_to_read
from railbed.store.timeline import Timeline

CLUSTER_OPTIONS = ("-c", "--cluster")


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    # Imported here because drawing is slow to load, and JSON draws nothing.
    from railbed.cli.verbs.check.explain import print_page

    rule = choose(all_rules(), name, kind="rule", listing=f"the rules are {', '.join(all_rules())}")
    sections = rule.sections
    if rule.needs:
        sections["Reads"] = ", ".join(rule.needs)
    print_page(rule.name, rule.title, sections, as_json=as_json)
    return OK


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
    since = None if request.since is None else moment(request.since, timeline.end)
    if request.follow and timeline.live:
        # Imported here because few need it.
        from railbed.cli.verbs.diagnose.follow import JsonView, TextView, follow_run

        view = JsonView() if request.json else TextView(timeline, everything=request.everything, since=since)
        return _exit_code(follow_run(folder, timeline, lambda: _judged(folder, timeline, since), view))
    findings = _judged(folder, timeline, since)
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


def _judged(folder: Path, timeline: Timeline, since: float | None) -> list[Finding]:
    """Return the findings about a run from a moment on; those about no time are about all of it."""
    if not timeline.series():
        raise UsageError(
            f"{folder.name} has no time series to diagnose", hint="`railbed train` and `railbed watch` record them"
        )
    findings = verdicts_of(folder, timeline)
    if since is None:
        return findings
    return [finding for finding in findings if finding.until is None or finding.until >= since]


def verdicts_of(folder: Path, timeline: Timeline) -> list[Finding]:
    """Return the verdicts about a run, with commands that can be pasted as they are."""
    use_cluster_file(_cluster_file(timeline.summary.arguments))
    cluster = _cluster(folder)
    return list(_addressed(diagnose(Evidence(cluster, timeline)), timeline.summary.id))


def _cluster(folder: Path) -> Cluster:
    try:
        return cluster_to_read(folder)
    except ClusterFileError as error:
        raise UsageError(
            f"{folder.name} has no readable copy of its cluster file: {str(error).splitlines()[0]}",
            hint="the run was changed or damaged: restore the file, or diagnose another run",
        ) from error


def _addressed(findings: Iterable[Finding], run: str) -> Iterable[Finding]:
    for finding in findings:
        record = advised(replace(finding, remedy=finding.remedy.replace(" RUN`", f" {run}`")))
        if isinstance(record, Finding):
            yield record


def _cluster_file(arguments: Sequence[str]) -> Path | None:
    """Return the cluster file that a run was started with; None for the default."""
    for word, following in pairwise([*arguments, ""]):
        option, _, value = word.partition("=")
        if option in CLUSTER_OPTIONS and (value or following):
            return Path(value or following)
        if word.startswith("-c") and not word.startswith("--") and len(word) > 2:
            return Path(word[2:])
    return None
