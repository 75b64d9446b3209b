"""Generate the reference: commands, rules, probes, records, metrics, recipes, the cluster file and its JSON Schema.

`python -m tools.reference` writes the pages; a test compares them with what would be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from railbed.bench.book import BENCH_BOOK
from railbed.capture.book import CAPTURE_BOOK
from railbed.check.book import CHECK_BOOK
from railbed.cli.main import make_app
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.model.probe import Probe
from railbed.probes.outputs import all_probes
from railbed.rules.book import RuleBook
from railbed.rules.rule import Rule
from tools.cluster_reference import cluster_file_page, cluster_schema
from tools.metrics_reference import metrics_page
from tools.recipe_reference import recipe_page
from tools.record_reference import records_page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
WIDTH = 100
SCOPES = {
    "node": "each node",
    "port": "each port",
    "RDMA port": "each port, and HCA without an interface",
    "rail": "each rail",
    "switch": "each switch",
    "switch port": "each switch port",
    "BMC": "each BMC",
    "cable": "each cable",
    "cluster": "the cluster",
    "path": "each path between two ports",
    "recording": "each recording",
}
GENERATED = "<!-- Written by `make docs`; edit the source, not this page. -->\n\n"


def pages() -> Mapping[str, str]:
    """Return every generated file by name."""
    return {
        "commands.md": GENERATED + commands_page(),
        "checks.md": GENERATED + checks_page(),
        "diagnose.md": GENERATED + diagnose_page(),
        "capture.md": GENERATED + capture_page(),
        "bench.md": GENERATED + bench_page(),
        "probes.md": GENERATED + probes_page(),
        "records.md": GENERATED + records_page(),
        "metrics.md": GENERATED + metrics_page(),
        "cluster-file.md": GENERATED + cluster_file_page(),
        "cluster.schema.json": cluster_schema(),
        "recipes.md": GENERATED + recipe_page(),
    }


def commands_page() -> str:
    """Return the help of every command, as `--help` prints it."""
    return "\n".join(["# Commands\n", *_pages_of(get_command(make_app()), "railbed")])


def _pages_of(command: Any, name: str) -> Iterator[str]:  # noqa: ANN401  (typer hides what a group is)
    """Yield the help of a command, and of its subcommands if it is a group."""
    context = command.make_context(name, [], resilient_parsing=True, terminal_width=WIDTH)
    yield _help(name, command.get_help(context))
    for below in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _pages_of(command.get_command(context, below), f"{name} {below}")


def _help(title: str, text: str) -> str:
    return f"## {title}\n\n```\n{text.strip()}\n```\n"


def checks_page() -> str:
    """Return one section per rule of check."""
    text = (
        f"The {len(CHECK_BOOK.rules)} rules of `railbed check`. `railbed check RULE…` runs some of them; "
        "`railbed check --explain RULE` explains one.\n\n"
        "Training depends on those marked *: if one of them is unknown and none failed, `check` ends with 3. "
        "Those marked † are judged only if they are named."
    )
    return _rules_page("Checks", text, "requirement", CHECK_BOOK)


def diagnose_page() -> str:
    """Return one section per rule of diagnose."""
    text = (
        f"The {len(DIAGNOSE_BOOK.rules)} rules of `railbed diagnose`; `railbed diagnose --explain RULE` explains one."
    )
    return _rules_page("What diagnose recognises", text, "recognises", DIAGNOSE_BOOK)


def capture_page() -> str:
    """Return one section per rule of capture."""
    text = f"The {len(CAPTURE_BOOK.rules)} rules of `railbed capture`; `railbed capture --explain RULE` explains one."
    return _rules_page("What capture recognises", text, "recognises", CAPTURE_BOOK)


def bench_page() -> str:
    """Return one section per rule of bench."""
    text = f"The {len(BENCH_BOOK.rules)} rules of `railbed bench`; `railbed bench --explain RULE` explains one."
    return _rules_page("What bench judges", text, "requirement", BENCH_BOOK)


def _rules_page(title: str, text: str, column: str, book: RuleBook[Any]) -> str:
    """Return a table of rules, and one section per rule, from its docstring."""
    parts = [
        f"# {title}\n",
        f"{text}\n",
        f"| rule | judges | {column} |\n|---|---|---|",
        *(
            f"| [{name}](#{name}){_mark(rule)} | {SCOPES[rule.scope]} | {rule.title} |"
            for name, rule in book.rules.items()
        ),
        "",
    ]
    for name, rule in book.rules.items():
        parts.append(f"## {name}\n")
        parts += [f"**{heading}.** {text}\n" for heading, text in rule.sections.items()]
        if rule.needs:
            parts.append(f"**Reads.** {', '.join(map(_need, rule.needs))}\n")
    return "\n".join(parts)


def _mark(rule: Rule[Any]) -> str:
    return " *" if rule.essential else " †" if rule.on_request else ""


def _need(need: Probe[Any] | str) -> str:
    return f"`{need}`" if isinstance(need, str) else f"[{need.name}](probes.md)"


def probes_page() -> str:
    """Return a table of the probes and the rules that use them."""
    checks = CHECK_BOOK.rules.values()
    rows = []
    for name, probe in all_probes().items():
        users = [f"[{check.name}](checks.md#{check.name})" for check in checks if probe in check.probes]
        needs = f"`{probe.tool}`" if probe.tool else ""
        root = "yes" if probe.needs_root else ""
        rows.append(f"| {name} | {probe.title} | {probe.runs_on} | {needs} | {root} | {', '.join(users)} |")
    return "\n".join(
        [
            "# Probes\n",
            "What railbed reads from a device. `railbed parse PROBE FILE` parses a saved output in the same way.\n",
            "| probe | reads | on a | needs | root | used by |\n|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
        print(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
