"""Examples to learn from, in JSONL: instructions, prompts with completions, or conversations. One line is one example.

    {"messages": [{"role": "user", "content": …}, {"role": "assistant", "content": …}, …]}
    {"instruction": …, "input": …, "output": …}          input may be missing
    {"prompt": …, "completion": …}                       written one after the other, without a chat template
    {"text": …}                                          all of it is learned

Only answers are learned: what `assistant` says, the output, the completion.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from railbed.errors import DataError, os_reason
from railbed.train.data.chat import ChatTemplate, Span, TemplateRefused
from railbed.train.data.chatprocess import Rendered, TemplateProcess

SUFFIX = ".jsonl"
LINE_BYTES = 16 << 20
MOST_MESSAGES = 1000
"""Messages in a conversation: its template is run for each of its answers."""
BATCH_LINES, BATCH_BYTES = 64, 1 << 20
"""Lines that are rendered at a time."""
NO_CHAT = ChatTemplate("", {})
ROLES = ("system", "user", "assistant", "tool")
FORMS = "messages, instruction and output, prompt and completion, or text"
NO_TEMPLATE = (
    "write {prompt, completion} instead, or put the template of a related model into the folder as chat_template.jinja"
)


@dataclass(frozen=True, slots=True)
class Example:
    """A text to learn from."""

    text: str
    answers: tuple[Span, ...]
    """The parts of it that are learned."""
    place: str
    """File and line, for messages."""
    ends: bool
    """Whether the token that ends a text follows, and is learned as well; a chat template writes its own."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages that the chat template makes a text of."""

    messages: Sequence[Mapping[str, Any]]
    place: str


@dataclass(frozen=True, slots=True)
class ExampleReader:
    """Reads examples for a model."""

    template: ChatTemplate | None
    tokenizer: Path
    """The tokenizer's folder, for messages."""

    def read(self, path: Path) -> Iterator[Example]:
        """Yield the examples of a file; raise DataError, with file and line, at the first that cannot be used."""
        with TemplateProcess(self.template or NO_CHAT) as process:
            for lines in self._batches(path):
                texts = process.render([line.messages for line in lines if isinstance(line, Conversation)])
                for line in lines:
                    yield line if isinstance(line, Example) else _render(line, texts)

    def _batches(self, path: Path) -> Iterator[list[Example | Conversation]]:
        """Yield the lines of a file, some at a time; those before a line that cannot be used come before its error."""
        batch: list[Example | Conversation] = []
        size = number = 0
        try:
            with path.open("rb") as file:
                while line := file.readline(LINE_BYTES + 1):
                    number += 1
                    batch.append(self.parse(line, f"{path}:{number}"))
                    size += len(line)
                    if size >= BATCH_BYTES or len(batch) >= BATCH_LINES:
                        yield batch
                        batch, size = [], 0
        except OSError as error:
            yield batch
            raise DataError(f"{path} cannot be read: {os_reason(error)}") from None
        except DataError:
            yield batch
            raise
        yield batch

    def parse(self, line: bytes, place: str) -> Example | Conversation:
        """Return the example in a line, or the conversation that has to be rendered first."""
        if len(line) > LINE_BYTES:
            _refuse(place, f"the line is longer than {LINE_BYTES >> 20} MB")
        if not line.strip():
            _refuse(place, "the line is empty", "remove it: every line is one example")
        try:
            values = json.loads(line)
        except UnicodeDecodeError:
            _refuse(place, "the line is not UTF-8")
        except (ValueError, RecursionError) as error:
            _refuse(place, f"the line is not JSON: {error}")
        if not isinstance(values, dict):
            _refuse(place, "the line is not a JSON object", f"expected {FORMS}")
        return self._example(values, place)

    def _example(self, values: Mapping[str, Any], place: str) -> Example | Conversation:
        match values:
            case {"messages": list(messages)}:
                return self._conversation([_message(message, place) for message in messages], place)
            case {"instruction": str(instruction), "output": str(output)}:
                extra = values.get("input")
                question = f"{instruction}\n\n{extra}" if isinstance(extra, str) and extra else instruction
                messages = [{"role": "user", "content": question}, {"role": "assistant", "content": output}]
                return self._conversation(messages, place)
            case {"prompt": str(prompt), "completion": str(completion)}:
                text = prompt + completion
                return Example(text, ((len(prompt), len(text)),), place, ends=True)
            case {"text": str(text)}:
                return Example(text, ((0, len(text)),), place, ends=True)
        return _refuse(
            place, f"the line has none of the known forms; its keys are {_keys(values)}", f"expected {FORMS}"
        )

    def _conversation(self, messages: list[dict[str, Any]], place: str) -> Conversation:
        if self.template is None:
            _refuse(place, f"a conversation, and the tokenizer in {self.tokenizer} has no chat template", NO_TEMPLATE)
        if len(messages) > MOST_MESSAGES:
            _refuse(place, f"the conversation has {len(messages)} messages, more than {MOST_MESSAGES}")
        if not any(message["role"] == "assistant" for message in messages):
            _refuse(place, "the conversation has no answer: no message has the role assistant")
        return Conversation(messages, place)


def _render(conversation: Conversation, texts: Iterator[Rendered]) -> Example:
    try:
        text, answers = next(texts)
    except TemplateRefused as refusal:
        _refuse(conversation.place, str(refusal))
    return Example(text, tuple(answers), conversation.place, ends=False)


def _message(message: object, place: str) -> dict[str, Any]:
    match message:
        case {"role": str(role), "content": str(content)} if role in ROLES:
            return {"role": role, "content": content}
        case {"role": str(role)} if role not in ROLES:
            _refuse(place, f"a message has the role {role!r}", f"expected {', '.join(ROLES)}")
        case {"role": str()}:
            _refuse(place, "a message has no content, or content that is not text")
    return _refuse(place, "a message has no role", f"expected {', '.join(ROLES)}")


def _keys(values: Mapping[str, Any]) -> str:
    return ", ".join(sorted(values)[:8])[:200] or "missing"


def _refuse(place: str, sentence: str, hint: str = "") -> NoReturn:
    raise DataError(f"{place}: {sentence}", hint=hint)
