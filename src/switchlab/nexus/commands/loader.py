"""Reading a configuration text: what a switch does at boot and for a rollback."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from switchlab.nexus.cli.commandset import Command, Trees
from switchlab.nexus.cli.context import CONFIG, Context
from switchlab.nexus.cli.grammar import SyntaxFault
from switchlab.nexus.cli.interpreter import Interpreter
from switchlab.nexus.commands.actions import actions
from switchlab.nexus.commands.general import general
from switchlab.nexus.commands.interface import interface_commands
from switchlab.nexus.commands.qos import qos
from switchlab.nexus.model.config import Config, Rejected
from switchlab.nexus.model.platform import Platform
from switchlab.nexus.model.switch import Switch

CONFIG_COMMANDS: list[Command] = [*general.commands, *interface_commands.commands, *qos.commands, *actions.commands]


@cache
def config_trees(platform: Platform) -> Trees:
    return Trees(CONFIG_COMMANDS, platform)


def apply_lines(switch: Switch, lines: Iterable[str]) -> list[str]:
    """Run configuration lines on a switch; return the lines that it rejected, each with the reason."""
    interpreter = Interpreter(config_trees(switch.platform))
    context = Context(switch, [CONFIG])
    rejected: list[str] = []
    for raw in lines:
        line = raw.strip()
        if not line or line.startswith("!"):
            continue
        if not context.modes:
            context.enter(CONFIG)
        try:
            interpreter.run(context, line)
        except SyntaxFault as fault:
            rejected.append(f"{line}: {fault.problem}")
        except Rejected as refusal:
            rejected.append(f"{line}: {str(refusal).strip()}")
    return rejected


def parse_config(platform: Platform, text: str) -> tuple[Config, list[str]]:
    """Return the configuration that a text describes, on top of the factory state, and the rejected lines."""
    scratch = Switch(platform)
    scratch.tcam.clear()  # whether it fits is decided where it is entered
    rejected = apply_lines(scratch, text.splitlines())
    return scratch.running, rejected


def boot(switch: Switch) -> list[str]:
    """Restart a switch with its startup configuration, or in factory state without one."""
    config, rejected = parse_config(switch.platform, switch.startup or "")
    switch.restart(config)
    return rejected
