"""How the run ended, its main numbers, and notices that qualify them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from railbed.model import events
from railbed.model.record import Event
from railbed.present.groups import verdict_counts
from railbed.present.wording import plural, seconds
from railbed.report.blocks import Block, Cell, Entries, Entry, Facts, MarkCell, Tone, bare, count, duration, share
from railbed.report.document import Headline, Section
from railbed.report.reading.run import RunData
from railbed.report.reading.series import ends
from railbed.store.run import Status

MOST_NOTICES = 20
ENDED: dict[Status, tuple[str, Tone]] = {
    "done": ("took", "good"),
    "failed": ("failed", "bad"),
    "stopped": ("was stopped", "notice"),
    "died": ("died without a message", "bad"),
    "running": ("is still running", "notice"),
    "waiting": ("waits for its Slurm job", "notice"),
}
NOTICES: dict[type[Event], tuple[str, Tone]] = {
    events.FellShort: ("exit 1", "bad"),
    events.Intrusion: ("intrusion", "bad"),
    events.ErrorReported: ("error", "bad"),
    events.CheckpointFailed: ("not saved", "bad"),
    events.MicroBatchHalved: ("memory", "notice"),
    events.Notice: ("notice", "notice"),
}


def headline(run: RunData) -> Headline:
    """State how it ended, and after how long."""
    words, tone = ENDED[run.summary.status]
    joined = " " if run.summary.status == "done" else " after "
    after = f"{joined}{seconds(run.seconds)}" if run.seconds is not None else ""
    what = "training" if run.summary.verb == "train" else f"the {run.summary.verb}"
    why = f": {run.summary.unstored}" if run.summary.unstored else ""
    return Headline(f"{what} {words}{after}{why}", tone)


def show(run: RunData) -> Sequence[Block]:
    """Show the main numbers, then notices and errors."""
    blocks: list[Block] = []
    if numbers := _numbers(run):
        blocks.append(Facts(numbers, large=True))
    if entries := [*_unreadable(run), *_set_back(run), *_notices(run)]:
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
        items += [(noun, count(number)) for _, number, noun in verdict_counts(run.findings)]
    else:
        items.append(("restarts", count(len(run.of(events.GenerationFailed)))))
    if items and run.seconds is not None:
        items.append(("took", duration(run.seconds)))
    return items


def _unreadable(run: RunData) -> list[Entry]:
    if not run.unreadable:
        return []
    count = plural(run.unreadable, "unreadable record")
    text = f"{count} in records.jsonl: damaged, or written by another version of railbed; this page leaves them out"
    return [Entry(mark=MarkCell("unreadable", "bad"), title="The run's records", text=text)]


def _set_back(run: RunData) -> list[Entry]:
    if not run.set_back:
        return []
    by = seconds(run.set_back)
    text = (
        f"it was set back by {by} or more while this ran; times since the start are corrected, times of samples are not"
    )
    return [Entry(mark=MarkCell("clock", "notice"), title="The clock of the machine that ran railbed", text=text)]


def _notices(run: RunData) -> list[Entry]:
    counts = Counter((type(event), event.subject, event.message) for event in run.events if type(event) in NOTICES)
    entries = [
        Entry(
            mark=MarkCell(*NOTICES[kind]),
            title=subject or run.summary.verb,
            text=message,
            detail=f"{times} times" if times > 1 else "",
        )
        for (kind, subject, message), times in counts.items()
    ]
    if len(entries) <= MOST_NOTICES:
        return entries
    rest = f"{len(entries) - MOST_NOTICES} more are in records.jsonl"
    return [*entries[:MOST_NOTICES], Entry(mark=MarkCell("more"), title=run.summary.verb, text=rest)]


SECTION = Section(name="verdict", title="In short", order=0, show=show, headline=headline)
