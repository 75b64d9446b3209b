"""The reference page about records: every kind, every event and every measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from inspect import getdoc

from railbed.model.events import all_events
from railbed.model.meters import RECORDED
from railbed.model.record import Event, Record
from railbed.store import to_line
from tools.record_examples import CHANGE, EXAMPLES, FINDING, MEASUREMENT

FINDINGS = (
    "One rule's judgement of one subject. `verdict` is fail, unknown, warn, skipped or ok. A finding with a "
    "`generation` is from the check at the moment when that generation of ranks ended early (`restart_checked`): it is "
    "worse than before the launch, and `before` is what was observed then, or null if nothing was. Such findings do "
    "not change the exit code."
)
KINDS: tuple[tuple[str, Record, str], ...] = (
    ("finding", FINDING, FINDINGS),
    ("measurement", MEASUREMENT, "A number with its unit; what was measured is in the labels."),
    ("change", CHANGE, "One difference between what is and what would be. `action` is add, remove or set."),
    ("event", EXAMPLES[0], "Something that happened. `name` says what, `data` has the fields of that event."),
)


def records_page() -> str:
    """Return the page."""
    return "\n".join(_parts())


def _parts() -> Iterator[str]:
    yield "# Records\n"
    yield "What `--json` prints and what `records.jsonl` in a run's folder contains: one JSON object per line, each"
    yield "with its `kind`. Names and fields, once released, stay; fields may be added.\n"
    for kind, example, meaning in KINDS:
        yield f"## {kind}\n\n{meaning}\n\n{_json(example)}\n"
    yield "## Events\n"
    yield "`subject` is a node, `NODE/rankN`, a run or a lab; `message` is a sentence for people. Fields marked with *"
    yield "are always there; others are left out where they do not apply.\n"
    examples = {example.name: example for example in EXAMPLES}
    for name, event in all_events().items():
        required = [item.name for item in fields(event) if item.name not in ("subject", "message", "time")]
        yield f"### {name}\n\n{' '.join((getdoc(event) or '').split())}\n"
        if required:
            yield f"Data: {', '.join(_field(event, item) for item in required)}.\n"
        yield f"{_json(examples[name])}\n"
    yield "## Measurements\n"
    yield "| name | unit | meaning | labels |\n|---|---|---|---|"
    for name, meter in RECORDED.items():
        meaning = meter.meaning + ", from rank 0" * meter.once + ", per second" * (meter.kind == "counter")
        yield f"| `{name}` | {meter.recorded_unit} | {meaning} | {', '.join(meter.labels)} |"
    yield ""


def _field(event: type[Event], name: str) -> str:
    item = next(item for item in fields(event) if item.name == name)
    required = item.default is item.default_factory  # both are the marker for "no default"
    return f"`{name}`{'*' if required else ''}"


def _json(record: Record) -> str:
    return f"```json\n{json.dumps(json.loads(to_line(record)), ensure_ascii=False)}\n```"
