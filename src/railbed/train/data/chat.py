"""Conversations as text: the model's own chat template, and which part of the text are answers.

Templates are programs in a foreign file. They run in Jinja's sandbox, which can call and change nothing outside the
values it gets, with the names that transformers defines for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from railbed.train.base.files import chat_template, tokenizer_settings

SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")
Messages = Sequence[Mapping[str, Any]]
Span = tuple[int, int]
"""Characters of a text, from the first to the one after the last."""


class TemplateRefused(Exception):
    """A template cannot render a conversation; the message says why."""


@dataclass(frozen=True)
class ChatTemplate:
    """The template of a tokenizer."""

    source: str
    tokens: Mapping[str, str]
    """Special tokens, which templates insert by name."""

    @classmethod
    def of(cls, folder: Path) -> ChatTemplate | None:
        """Return the chat template of a model folder; None if it has none, ModelError if its files are damaged."""
        source = chat_template(folder)
        return None if source is None else cls(source, special_tokens(tokenizer_settings(folder)))

    @cached_property
    def _compiled(self) -> Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = time.strftime
        return environment.from_string(_without_generation_tags(self.source))

    def render(self, messages: Messages, *, prompts: bool = False) -> str:
        """Return a conversation as text; `prompts` appends the start of an answer. Raise TemplateRefused."""
        try:
            return self._compiled.render(messages=messages, add_generation_prompt=prompts, **self.tokens)
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            raise TemplateRefused(f"the chat template refuses it: {str(error)[:200] or type(error).__name__}") from None

    def with_answers(self, messages: Messages) -> tuple[str, list[Span]]:
        """Return a conversation as text, and where its answers are, each with the mark that ends it.

        An answer begins where the conversation up to it, with the prompt for an answer, ends.
        """
        text = self.render(messages)
        spans = []
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                start = len(self._prefix(text, self.render(messages[:index], prompts=True)))
                spans.append((start, self._end(text, start, messages[: index + 1])))
        return text, spans

    @staticmethod
    def _prefix(text: str, start: str) -> str:
        if not text.startswith(start):
            raise TemplateRefused("the chat template writes earlier messages differently once others follow")
        return start

    def _end(self, text: str, start: int, messages: Messages) -> int:
        """Return where the last of these messages ends in the text of the complete conversation.

        A template may write an answer differently if it is the last (Qwen3 adds an empty thought), but never what
        follows its content: the mark that ends it.
        """
        content = str(messages[-1]["content"]).strip()
        alone = self.render(messages)
        position, last = text.find(content, start), alone.rfind(content)
        if position < 0 or last < 0:
            raise TemplateRefused("the chat template changes the text of an answer")
        mark = alone[last + len(content) :].rstrip()
        end = position + len(content)
        if not text.startswith(mark, end):
            raise TemplateRefused("the chat template ends an answer differently once others follow")
        return end + len(mark)


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens of a tokenizer's configuration, by name."""
    tokens = {}
    for name in SPECIAL:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            tokens[name] = text
    return tokens


def _without_generation_tags(source: str) -> str:
    """Return a template without the tags with which some mark answers, which Jinja does not have."""
    for dash, after in product(("", "-"), repeat=2):
        source = source.replace(f"{{%{dash} generation {after}%}}", f"{{%{dash} if true {after}%}}")
        source = source.replace(f"{{%{dash} endgeneration {after}%}}", f"{{%{dash} endif {after}%}}")
    return source


def _to_json(value: object, indent: int | None = None, **_: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateRefused(str(message)[:200])
