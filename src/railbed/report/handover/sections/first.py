"""Read this first: how large the cluster is, what the page is, what to do next, and the commands of every day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.model import events
from railbed.model.record import Verdict
from railbed.present.wording import join_names, moment, plural, seconds
from railbed.report.blocks import Block, Code, Entries, Entry, Facts, MarkCell, TableBlock, TextBlock, Tone, count
from railbed.report.document import Headline, Section
from railbed.report.handover.data import HandoverData

OLD_SECONDS = 30 * 86400.0
COMMANDS = (
    ("railbed check", "is everything right? Each finding has its remedy"),
    ("railbed configure", "what would be changed; --apply changes it, --undo RUN takes it back"),
    ("railbed bench", "what links, disks and collectives achieve, compared with the baseline"),
    ("railbed train", "trains, and continues when machines fail"),
    ("railbed watch", "one page of everything while a run is in progress"),
    ("railbed runs", "what was done, and how it ended"),
    ("railbed diagnose", "why a training was slow, or failed"),
)


def headline(data: HandoverData) -> Headline:
    """State what the cluster consists of."""
    cluster, gpus = data.cluster, len(data.of(events.GpuListed))
    words = [plural(len(cluster.nodes), "node")]
    if gpus:
        words.append(plural(gpus, "GPU"))
    if cluster.rails:
        words.append(plural(len(cluster.rails), "rail"))
    if cluster.switches:
        words.append(plural(len(cluster.switches), "switch", "switches"))
    return Headline(join_names(words))


def show(data: HandoverData) -> Sequence[Block]:
    """Show the size of the cluster, and what to do."""
    cluster = data.cluster
    sizes = (
        ("nodes", len(cluster.nodes)),
        ("GPUs", len(data.of(events.GpuListed))),
        ("rails", len(cluster.rails)),
        ("switches", len(cluster.switches)),
        ("runs", len(data.runs)),
    )
    blocks: list[Block] = [
        Facts([(name, count(number)) for name, number in sizes if number], large=True),
        TextBlock(_about(data)),
    ]
    if entries := list(_next(data)):
        blocks.append(Entries(entries))
    rows = [(Code(data.with_file(f"`{command}`").strip("`")), text) for command, text in COMMANDS]
    return [*blocks, TableBlock(("command", "what it answers"), rows)]


def _about(data: HandoverData) -> str:
    if data.recording is not None:
        source = f"the recording {data.recording}"
    else:
        source = "what runs have stored" if data.file is None else f"{data.file} and what runs have stored"
    return (
        f"This page is for whoever takes over {data.cluster.name}. It was made from {source}; no machine was "
        f"contacted, so nothing here is newer than the last check. `{data.again}` writes it again, with your notes."
    )


def _next(data: HandoverData) -> Iterator[Entry]:
    """Yield what is missing or wrong, each with the command for it."""
    yield from _next_for_check(data)
    unread = [machine.subject for machine in data.of(events.MachineListed) if machine.read is None]
    if unread and data.check is not None:
        listed = ", ".join(unread[:5]) + (f" and {len(unread) - 5} others" if len(unread) > 5 else "")
        yield _entry(data, "missing", "Machines", f"never read: {listed}", "`railbed check`")
    if data.file is not None and data.baseline is None:
        text = "nothing shows how fast the healthy cluster is"
        yield _entry(data, "missing", "Baseline", text, "`railbed bench full --save-baseline`")
    if data.notes_file is not None and not data.notes:
        yield _entry(data, "missing", "Notes", "nobody has written any", f"edit {data.notes_file}")
    if data.file is None and data.recording is None:
        text = "there is none: the page is about this machine alone"
        yield _entry(data, "missing", "Cluster file", text, "`railbed discover HOST…`")


def _next_for_check(data: HandoverData) -> Iterator[Entry]:
    if data.check is None:
        yield _entry(data, "missing", "State", "nothing was checked yet", "`railbed check`")
        return
    age = data.made - data.check.summary.started
    if age > OLD_SECONDS and data.recording is None:
        yield _entry(data, "old", "State", f"the newest check is {seconds(age)} old", "`railbed check`")
    failed = [finding for finding in data.check.findings if finding.verdict is Verdict.FAIL]
    fixable = sum(finding.fix is not None for finding in failed)
    if fixable:
        text = f"{plural(len(failed), 'finding')} failed, and there is a change for {fixable} of them"
        yield _entry(data, "wrong", "State", text, "`railbed configure` shows the changes")
    elif failed:
        text = f"{plural(len(failed), 'finding')} failed on {moment(data.check.summary.started)}"
        yield _entry(data, "wrong", "State", text, "each remedy is listed under State")


def _entry(data: HandoverData, mark: str, title: str, text: str, advice: str) -> Entry:
    tone: Tone = "bad" if mark == "wrong" else "notice"
    return Entry(mark=MarkCell(mark, tone), title=title, text=text, advice=data.with_file(advice))


SECTION = Section(name="first", title="Read this first", order=0, show=show, headline=headline)
