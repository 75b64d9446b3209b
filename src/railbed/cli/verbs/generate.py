"""railbed generate"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from railbed.api.verbs.generate import INPUT_BYTES, generate
from railbed.cli.options import JsonOption, Options, TimeoutOption
from railbed.cli.run.perform import show
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.generate import GenerateScreen
from railbed.cli.site import chosen_model, named_cluster
from railbed.errors import UsageError, os_reason
from railbed.model.limits import DEVICE_SECONDS

SourceArgument = Annotated[
    str, typer.Argument(metavar="RUN|DIR", help="Training run (name, folder or newest), or the folder of a model.")
]
PromptOption = Annotated[
    list[str] | None, typer.Option("--prompt", "-p", metavar="TEXT", help="Text to continue, or to answer; repeatable.")
]
PromptsOption = Annotated[
    Path | None, typer.Option("--prompts", metavar="FILE", help="File with a prompt on each line.")
]
TokensOption = Annotated[int, typer.Option("--tokens", "-n", metavar="N", min=1, help="Most tokens to generate.")]
GreedyOption = Annotated[bool, typer.Option("--greedy", help="Always take the likeliest token.")]
TemperatureOption = Annotated[
    float, typer.Option("--temperature", metavar="T", min=0.01, help="Below 1 likelier tokens, above 1 more variety.")
]
TopKOption = Annotated[
    int, typer.Option("--top-k", metavar="K", min=0, help="Choose among the K likeliest tokens; 0: among all.")
]
TopPOption = Annotated[
    float,
    typer.Option(
        "--top-p", metavar="P", min=0.0, max=1.0, help="Choose among the likeliest tokens that add up to this share."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="The same seed gives the same text.")]
BeforeOption = Annotated[
    bool | None,
    typer.Option(
        "--before/--after-only",
        help="Whether the model before fine-tuning answers, too. [default: for fine-tuned models]",
    ),
]
ChatOption = Annotated[
    bool | None,
    typer.Option("--chat/--no-chat", help="Whether to use the chat template. [default: if the model has one]"),
]
NodesOption = Annotated[
    Path | None,
    typer.Option("--cluster", "-c", metavar="FILE", help="Cluster file. [default: the run's; for DIR this machine]"),
]
NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="NODE", help="Node that generates; DIR is a folder there.")
]


def generate_command(
    source: SourceArgument,
    prompt: PromptOption = None,
    prompts: PromptsOption = None,
    tokens: TokensOption = 128,
    greedy: GreedyOption = False,
    temperature: TemperatureOption = 0.8,
    top_k: TopKOption = 40,
    top_p: TopPOption = 1.0,
    seed: SeedOption = 0,
    before: BeforeOption = None,
    chat: ChatOption = None,
    cluster: NodesOption = None,
    node: NodeOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Generate text from a trained model: that of a run, on its node, or that of a folder, on this machine.

    The prompt comes from --prompt, from a file, or from standard input. Fine-tuned models answer twice, before and
    after fine-tuning, side by side.

    Example: railbed generate newest --prompt "def main("
    """
    texts = _prompts(prompt, prompts)
    stream = generate(
        chosen_model(source),
        texts,
        named_cluster(cluster),
        tokens=tokens,
        greedy=greedy,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        before=before,
        chat=chat,
        node=node,
        reach=Options(json=as_json, timeout=timeout),
    )
    return show(stream, JsonScreen() if as_json else GenerateScreen(texts))


def _prompts(prompt: Sequence[str] | None, file: Path | None) -> list[str]:
    if prompt and file:
        raise UsageError("--prompt and --prompts cannot be combined", hint="use one of them")
    if prompt:
        texts = list(prompt)
    elif file:
        texts = [line for line in _file_text(file).splitlines() if line.strip()]
    elif sys.stdin.isatty():
        raise UsageError("there is no prompt", hint="--prompt TEXT, --prompts FILE, or text on standard input")
    else:
        texts = [sys.stdin.read(INPUT_BYTES + 1).removesuffix("\n")]
    if not texts:
        raise UsageError(f"{file} has no prompt", hint="write one on each line")
    return texts


def _file_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(INPUT_BYTES + 1).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {os_reason(error)}") from None
