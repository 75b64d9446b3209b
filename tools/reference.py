"""Generate the reference: commands, rules, probes, records, metrics, recipes, the cluster file and its JSON Schema.

`python -m tools.reference` writes the pages; a test compares them with what would be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from railbed.capture.judge import all_rules as rules_of_capture
from railbed.check.judge import all_checks
from railbed.check.rule import Check
from railbed.cli.main import make_app
from railbed.diagnose.judge import all_rules
from railbed.probes.outputs import all_probes
from tools.cluster_reference import cluster_file_page, cluster_schema
from tools.metrics_reference import metrics_page
from tools.recipe_reference import recipe_page
from tools.record_reference import records_page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
WIDTH = 100
SCOPES = {
    "node": "each node",
    "port": "each port",
    "rail": "each rail",
    "switch": "each switch",
    "switch port": "each switch port",
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
    """Return one section per rule, from its docstring."""
    checks = all_checks()
    parts = [
        "# Checks\n",
        f"The {len(checks)} rules of `railbed check`. `railbed check RULE…` runs some of them; `railbed check "
        "--explain RULE` explains one.\n",
        "Training depends on those marked *: if one of them is unknown and none failed, `check` ends with 3. "
        "Those marked † are judged only if they are named.\n",
        "| rule | judges | requirement |\n|---|---|---|",
        *(
            f"| [{name}](#{name}){_mark(check)} | {SCOPES[check.scope]} | {check.title} |"
            for name, check in checks.items()
        ),
        "",
    ]
    for name, check in checks.items():
        parts.append(f"## {name}\n")
        parts += [f"**{heading}.** {text}\n" for heading, text in check.sections.items()]
        if check.needs:
            parts.append(f"**Reads.** {', '.join(f'[{probe.name}](probes.md)' for probe in check.needs)}\n")
    return "\n".join(parts)


def _mark(check: Check[Any]) -> str:
    return " *" if check.essential else " †" if check.on_request else ""


def diagnose_page() -> str:
    """Return one section per rule of diagnose, from its docstring."""
    rules = all_rules()
    parts = [
        "# What diagnose recognises\n",
        f"The {len(rules)} rules of `railbed diagnose`; `railbed diagnose --explain RULE` explains one.\n",
        "| rule | judges | recognises |\n|---|---|---|",
        *(f"| [{name}](#{name}) | {SCOPES[rule.scope]} | {rule.title} |" for name, rule in rules.items()),
        "",
    ]
    for name, rule in rules.items():
        parts.append(f"## {name}\n")
        parts += [f"**{heading}.** {text}\n" for heading, text in rule.sections.items()]
        if rule.needs:
            parts.append(f"**Reads.** {', '.join(f'`{meter}`' for meter in rule.needs)}\n")
    return "\n".join(parts)


def capture_page() -> str:
    """Return one section per rule of capture, from its docstring."""
    rules = rules_of_capture()
    parts = [
        "# What capture recognises\n",
        f"The {len(rules)} rules of `railbed capture`; `railbed capture --explain RULE` explains one.\n",
        "| rule | judges | recognises |\n|---|---|---|",
        *(f"| [{name}](#{name}) | {SCOPES[rule.scope]} | {rule.title} |" for name, rule in rules.items()),
        "",
    ]
    for name, rule in rules.items():
        parts.append(f"## {name}\n")
        parts += [f"**{heading}.** {text}\n" for heading, text in rule.sections.items()]
    return "\n".join(parts)


def probes_page() -> str:
    """Return a table of the probes and the rules that use them."""
    checks = all_checks().values()
    rows = []
    for name, probe in all_probes().items():
        users = [f"[{check.name}](checks.md#{check.name})" for check in checks if probe in check.needs]
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
