"""How the run ended, its main numbers, and what has to be known before any of them is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from railbed.model.record import Verdict
from railbed.report.blocks import Block, Cell, Entries, Entry, Facts, Mark, Tone
from railbed.report.reading.run import RunData
from railbed.report.reading.series import ends
from railbed.report.section import Headline, Section
from railbed.report.values import bare, count, duration, share
from railbed.report.words import plural, seconds

MOST_NOTICES = 20
ENDED: dict[str, tuple[str, Tone]] = {
    "done": ("took", "good"),
    "failed": ("failed", "bad"),
    "interrupted": ("was interrupted", "notice"),
    "died": ("died without a word", "bad"),
    "running": ("is still going on", "notice"),
}
COUNTED = {Verdict.FAIL: "failed", Verdict.WARN: "to look at"}
TOLD: dict[str, tuple[str, Tone]] = {
    "ending": ("exit 1", "bad"),
    "intrusion": ("intrusion", "bad"),
    "error": ("error", "bad"),
    "checkpoint_failed": ("not saved", "bad"),
    "notice": ("notice", "notice"),
}


def headline(run: RunData) -> Headline:
    """Say how it ended, and after how long."""
    words, tone = ENDED[run.summary.status]
    joined = " " if run.summary.status == "done" else " after "
    after = f"{joined}{seconds(run.seconds)}" if run.seconds is not None else ""
    what = "training" if run.summary.verb == "train" else f"the {run.summary.verb}"
    return Headline(f"{what} {words}{after}", tone)


def show(run: RunData) -> Sequence[Block]:
    """Show the numbers that people ask for first, then notices and errors."""
    blocks: list[Block] = []
    if numbers := _numbers(run):
        blocks.append(Facts(numbers, large=True))
    if entries := [*_damaged(run), *_notices(run)]:
        blocks.append(Entries(entries))
    return blocks


def _numbers(run: RunData) -> list[tuple[str, Cell]]:
    items: list[tuple[str, Cell]] = []
    if "loss" in run.series:
        items.append(("loss at the end", bare(ends(run.series["loss"].mean().values)[1], run.series["loss"].unit)))
    if "validation_loss" in run.series and (values := run.series["validation_loss"].mean().values):
        items.append(("validation loss", bare(values[-1], run.series["validation_loss"].unit)))
    if "tokens_per_second" in run.series:
        items.append(("tokens/s, median", bare(run.series["tokens_per_second"].typical().middle, "token/s")))
    if "mfu" in run.series:
        items.append(("MFU, median", share(run.series["mfu"].typical().middle)))
    if not run.series:
        found = Counter(finding.verdict for finding in run.findings)
        items += [(COUNTED.get(verdict, verdict.value), count(found[verdict])) for verdict in Verdict if found[verdict]]
    else:
        items.append(("restarts", count(len(run.told("restart")))))
    if items and run.seconds is not None:
        items.append(("took", duration(run.seconds)))
    return items


def _damaged(run: RunData) -> list[Entry]:
    if not run.damaged:
        return []
    lines = plural(run.damaged, "line")
    text = f"{lines} of records.jsonl cannot be read; what stood there is missing on this page"
    return [Entry(mark=Mark("damaged", "bad"), title="The run's records", text=text)]


def _notices(run: RunData) -> list[Entry]:
    told: dict[tuple[str, str, str], int] = {}
    for event in run.told(*TOLD):
        key = (event.name, event.subject, event.message)
        told[key] = told.get(key, 0) + 1
    entries = [
        Entry(
            mark=Mark(*TOLD[name]),
            title=subject or run.summary.verb,
            text=message,
            detail=f"told {times} times" if times > 1 else "",
        )
        for (name, subject, message), times in told.items()
    ]
    if len(entries) <= MOST_NOTICES:
        return entries
    rest = f"{len(entries) - MOST_NOTICES} more stand in records.jsonl"
    return [*entries[:MOST_NOTICES], Entry(mark=Mark("more"), title=run.summary.verb, text=rest)]


SECTION = Section(name="verdict", title="In short", order=0, show=show, headline=headline)
