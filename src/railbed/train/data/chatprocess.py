"""Renders conversations in a separate process: a chat template is a program in a foreign file, which may never end.

The process reads the template and then lists of conversations, each as a JSON line, and answers each conversation with
a line of its own. It ends itself if a conversation takes too long; if it does not answer, it is killed.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from railbed.launch.messages import SAFE_PATH
from railbed.train.data.chat import ChatTemplate, Messages, Span, TemplateRefused

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

CPU_SECONDS = 30
"""Processor time for one conversation."""
SILENCE_SECONDS = 300.0
"""How long it may be silent: generous, since a busy machine may be slow."""
MEMORY_BYTES = 1 << 30
MOST_CHARACTERS = 64 << 20
"""Of a conversation as text: several times what a line of a file may have."""
PIECE = 1 << 20
Rendered = tuple[str, list[Span]]


class TemplateProcess:
    """Renders conversations with a template that is not trusted; it starts with the first of them.

    With `prompts`, each ends with the start of an answer, and answers in it are not looked for.
    """

    def __init__(self, template: ChatTemplate, *, prompts: bool = False, cpu_seconds: int = CPU_SECONDS) -> None:
        self._template = template
        self._prompts = prompts
        self._cpu_seconds = cpu_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            with self._process:
                self._process.kill()
            self._process = None

    def render(self, conversations: Sequence[Messages]) -> Iterator[Rendered]:
        """Yield each conversation as text, with its answers; raise TemplateRefused at the first that has none."""
        if conversations:
            self._send(list(conversations))
        for _ in conversations:
            answer = json.loads(self._line())
            if "refused" in answer:
                raise TemplateRefused(str(answer["refused"]))
            yield answer["text"], [(start, end) for start, end in answer["answers"]]

    def _send(self, content: object) -> None:
        if self._process is None:
            self._process = self._start()
            self._send([self._template.source, dict(self._template.tokens), self._prompts, self._cpu_seconds])
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(content).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise TemplateRefused(self._why_it_ended(self._process)) from None

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", __name__]
        # A session of its own: Ctrl-C reaches only us, and is not taken for a template that ended its process.
        return subprocess.Popen(
            words,
            cwd="/",  # where Python 3.10 looks for modules: it ignores SAFE_PATH
            env={**os.environ, **SAFE_PATH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _line(self) -> bytes:
        process = self._process
        assert process
        assert process.stdout
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if not select.select([process.stdout], [], [], SILENCE_SECONDS)[0]:
                raise TemplateRefused(f"the chat template did not end within {SILENCE_SECONDS:g} s")
            piece = os.read(process.stdout.fileno(), PIECE)
            if not piece:
                raise TemplateRefused(self._why_it_ended(process))
            self._received += piece
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _why_it_ended(self, process: subprocess.Popen[bytes]) -> str:
        if process.wait() == -signal.SIGXCPU:
            return f"the chat template takes more than {self._cpu_seconds} s of processor time for it"
        return "the chat template ended the process that ran it: it needs too much memory"


def main() -> None:
    """Answer what standard input asks for."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, tokens, prompts, seconds = json.loads(sys.stdin.buffer.readline())
    template = ChatTemplate(source, tokens)
    while line := sys.stdin.buffer.readline():
        for messages in json.loads(line):
            limit = math.ceil(time.process_time()) + seconds
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            sys.stdout.buffer.write(json.dumps(_answer(template, messages, prompts=prompts)).encode() + b"\n")
            sys.stdout.buffer.flush()


def _answer(template: ChatTemplate, messages: Messages, *, prompts: bool) -> dict[str, Any]:
    try:
        text, answers = (template.render(messages, prompts=True), []) if prompts else template.with_answers(messages)
    except TemplateRefused as refusal:
        return {"refused": str(refusal)}
    except MemoryError:
        return {"refused": f"the chat template needs more than {MEMORY_BYTES >> 20} MiB of memory for it"}
    except Exception as error:
        return {"refused": f"the chat template refuses it: {type(error).__name__}"}
    if len(text) > MOST_CHARACTERS:
        return {"refused": f"the chat template writes more than {MOST_CHARACTERS >> 20} million characters"}
    return {"text": text, "answers": answers}


if __name__ == "__main__":
    main()
