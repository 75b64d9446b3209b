"""`esxcli` and `localcli`: finds the command, reads its options, and prints its answer in the format that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from switchlab.esxi.commands import functions, nics, private, system, vswitches
from switchlab.esxi.commands.outcome import CommandOutput, fail
from switchlab.esxi.commands.tree import EsxCommand, Mistaken
from switchlab.esxi.formats import text
from switchlab.esxi.formats.machine import FORMATTERS
from switchlab.esxi.model.host import Host, Refused
from switchlab.esxi.model.release import Release

COMMANDS: dict[str, EsxCommand] = {
    command.words: command for module in (nics, functions, vswitches, system) for command in module.COMMANDS
}
READ_ONLY = "Operation not permitted"


def esxcli(host: Host, arguments: Sequence[str]) -> CommandOutput:
    """Run `esxcli [--formatter=FORMAT] words options`."""
    rest, formatter = list(arguments), ""
    while rest and rest[0].startswith("--"):
        name, equals, value = rest.pop(0).partition("=")
        if not equals and rest:
            value = rest.pop(0)
        if name == "--plugin-dir":
            return private.run(host, rest)
        if name != "--formatter":
            return fail(f"Error: Invalid option {name}")
        formatter = value
    known = {name for name in FORMATTERS if name != "json" or host.release.has_json}
    if formatter and formatter not in known:
        return fail(f"Error: Unknown formatter {formatter}")
    return _run(host, rest, formatter)


def find_command(words: Sequence[str], release: Release) -> tuple[EsxCommand | None, list[str]]:
    """Return the command that words begin with, and the words behind it."""
    for count in range(len(words), 0, -1):
        command = COMMANDS.get(" ".join(words[:count]))
        if command is not None and command.exists(release):
            return command, list(words[count:])
    return None, list(words)


def _run(host: Host, words: list[str], formatter: str) -> CommandOutput:
    command, rest = find_command(words, host.release)
    if command is None:
        return _unknown(host, words)
    if "--help" in rest:
        return CommandOutput(command.usage)
    if command.changes and host.lockdown == "read-only":
        return fail(READ_ONLY)
    try:
        answer = command.handle(host, command.parse(rest))
    except Mistaken as mistake:
        return CommandOutput(str(mistake), 1)
    except Refused as refusal:
        return fail(str(refusal))
    return CommandOutput(answer if isinstance(answer, str) else FORMATTERS.get(formatter, text.render)(answer))


def _unknown(host: Host, words: Sequence[str]) -> CommandOutput:
    """List what there is below a namespace, or refuse a word that is not there."""
    prefix = " ".join(words)
    names = sorted(
        {
            name[len(prefix) :].split()[0]
            for name, command in COMMANDS.items()
            if command.exists(host.release) and (not prefix or name.startswith(f"{prefix} "))
        }
    )
    if not names:
        return fail(f"Error: Unknown command or namespace {prefix}")
    lines = [f"Usage: esxcli {prefix} {{cmd}} [cmd options]", "", "Available Namespaces and Commands:"]
    return CommandOutput("".join(f"{line}\n" for line in [*lines, *(f"  {name}" for name in names)]), 0)
