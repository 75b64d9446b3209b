"""railbed train --show-data: sequences as the model will get them; starts nothing."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from rich.text import Text

from railbed.api.exits import OK
from railbed.cli.console import SafeConsole
from railbed.model.text import clean
from railbed.train.data.prepare import PreparedData
from railbed.train.data.show import Passage, sequences

OPENING, CLOSING = "⟦", "⟧"
"""Around what is trained, for terminals without colours and for files."""


def show_data(prepared: PreparedData, context: int, count: int, *, as_json: bool) -> int:
    """Print the first sequences, and what the data consists of; return the exit code."""
    console = SafeConsole(highlight=False, soft_wrap=True)
    for sequence in sequences(prepared, context, count):
        if as_json:
            sys.stdout.write(json.dumps({"kind": "sequence", **asdict(sequence)}) + "\n")
            continue
        title = f"sequence {sequence.number + 1}: {sequence.tokens} tokens, {sequence.trained} trained"
        console.print(Text(title, style="bold"))
        console.print(_mark_trained(sequence.passages))
    if not as_json:
        console.print(Text(_summary(prepared), style="dim"))
    return OK


def _mark_trained(passages: list[Passage]) -> Text:
    text, document = Text(), 1
    for passage in passages:
        if passage.document != document:
            text.append("\n-- next document, which cannot attend to the one above --\n", style="dim")
            document = passage.document
        content = clean(passage.text)
        if passage.trained:
            text.append(f"{OPENING}{content}{CLOSING}", style="green")
        else:
            text.append(content)
    return text


def _summary(prepared: PreparedData) -> str:
    if prepared.layout != "rows":
        return f"{prepared.tokens:,} tokens, all trained"
    notes = [f"{prepared.trained:,} of {prepared.tokens:,} tokens are trained, in {prepared.rows:,} sequences"]
    notes += [f"{prepared.rows - prepared.train:,} of these are held out for validation"]
    notes += [f"{prepared.cut:,} examples were cut"] if prepared.cut else []
    notes += [f"{prepared.unused:,} have no answer within the length of a sequence"] if prepared.unused else []
    return "; ".join(notes)
