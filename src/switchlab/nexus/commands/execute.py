"""Commands outside configuration mode: the terminal, saving, checkpoints, rollback, reload."""

from __future__ import annotations

import re
import time

from switchlab.nexus.cli.commandset import CommandSet, Match
from switchlab.nexus.cli.context import CONFIG, Context, Question, Shown
from switchlab.nexus.commands.loader import apply_lines, boot, parse_config
from switchlab.nexus.model.config import Rejected
from switchlab.nexus.model.patch import patch
from switchlab.nexus.model.render import running_blocks
from switchlab.nexus.model.switch import Checkpoint
from switchlab.nexus.show.layout import table

execute = CommandSet()
MAX_CHECKPOINTS, MAX_DESCRIPTION = 10, 80
MAX_NAME = {"n9k": 80, "n5k": 32}
PROGRESS = "[########################################] 100%\n"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


@execute.add("exec", "configure [terminal]")
def configure(context: Context, _: Match) -> str:
    context.modes[:] = [CONFIG]
    return "Enter configuration commands, one per line. End with CNTL/Z.\n"


@execute.add("exec", "exit", "quit", "logout")
def leave(context: Context, _: Match) -> None:
    context.closing = True


@execute.add("exec", "end", "enable")
def nothing(_: Context, __: Match) -> None:
    """Accept what has no effect here."""


@execute.add("exec", "terminal length <lines:0-511>")
def terminal_length(context: Context, match: Match) -> None:
    context.terminal_length = match.number("lines")


@execute.add("exec", "terminal width <columns:24-511>")
def terminal_width(context: Context, match: Match) -> None:
    context.terminal_width = match.number("columns")


@execute.add("exec", "terminal dont-ask", "no terminal dont-ask", "terminal no dont-ask")
def dont_ask(context: Context, match: Match) -> None:
    context.dont_ask = "no" not in match.keywords


@execute.add("exec", "copy running-config startup-config")
def save(context: Context, _: Match) -> str:
    context.switch.save()
    return f"{PROGRESS}Copy complete, now saving to disk (please wait)...\nCopy complete.\n"


@execute.add("exec", "copy startup-config running-config")
def merge_startup(context: Context, _: Match) -> str:
    rejected = apply_lines(context.switch, (context.switch.startup or "").splitlines())
    return "".join(f"{line}\n" for line in rejected) + f"{PROGRESS}Copy complete.\n"


@execute.add("exec", "write erase")
def write_erase(context: Context, _: Match) -> Question:
    def proceed() -> str:
        context.switch.erase_startup()
        return ""

    return Question(
        "Warning: This command will erase the startup-configuration.\nDo you wish to proceed anyway? (y/n)  [n] ",
        proceed,
    )


@execute.add("exec", "reload")
def reload(context: Context, _: Match) -> Question:
    def proceed() -> str:
        context.modes.clear()
        context.closing = True
        boot(context.switch)
        return ""

    return Question("This command will reboot the system. (y/n)?  [n] ", proceed)


@execute.add("exec", "clear counters [interface all]")
def clear_counters(context: Context, _: Match) -> None:
    for port in context.switch.ports.values():
        port.clear()


# Checkpoints


@execute.add("exec", "checkpoint [<name:long>] [description <text:line>]")
def checkpoint(context: Context, match: Match) -> str:
    switch = context.switch
    name = str(match.values.get("name") or _free_name(switch.checkpoints))
    longest = MAX_NAME[switch.platform.family]
    if not _NAME.fullmatch(name) or name.startswith("system-") or len(name) > longest:
        raise Rejected("ERROR: Invalid checkpoint name\n")
    if name in switch.checkpoints:
        raise Rejected("ERROR: Checkpoint name already exists\n")
    if len(switch.checkpoints) >= MAX_CHECKPOINTS:
        raise Rejected(f"ERROR: Maximum number of checkpoints ({MAX_CHECKPOINTS}) reached\n")
    description = str(match.values.get("text", ""))[:MAX_DESCRIPTION]
    switch.add_checkpoint(Checkpoint(name, switch.running_text(), time.time(), context.user, description))
    return f"{'.' * 16}Done\n" if "name" in match.values else f"{name} created Successfully\nDone\n"


def _free_name(taken: dict[str, Checkpoint]) -> str:
    return next(name for number in range(1, MAX_CHECKPOINTS + 2) if (name := f"user-checkpoint-{number}") not in taken)


def _checkpoint(context: Context, match: Match, key: str = "name") -> Checkpoint:
    item = context.switch.checkpoints.get(match.text(key))
    if item is None:
        raise Rejected("ERROR: Checkpoint does not exist\n")
    return item


@execute.add("exec", "no checkpoint <name:long>", "clear checkpoint <name:long>")
def no_checkpoint(context: Context, match: Match) -> None:
    context.switch.remove_checkpoint(_checkpoint(context, match).name)


@execute.add("exec", "clear checkpoint database")
def clear_checkpoints(context: Context, _: Match) -> str:
    for name in list(context.switch.checkpoints):
        context.switch.remove_checkpoint(name)
    return ".Done\n"


@execute.add("exec", "show checkpoint summary [user]", "show checkpoint all")
def show_checkpoints(context: Context, _: Match) -> Shown:
    text = "User Checkpoint Summary\n" + "-" * 80 + "\n"
    for number, item in enumerate(context.switch.checkpoints.values(), 1):
        created = time.strftime("%a, %H:%M:%S %d %b %Y", time.gmtime(item.time))
        text += f"{number}) {item.name}:\nCreated by {item.user}\nCreated at {created}\n"
        text += f"Size is {len(item.text):,} bytes\nDescription: {item.description or None}\n\n"
    rows = [
        {"chkpoint_name": item.name, "chkpoint_size": len(item.text)} for item in context.switch.checkpoints.values()
    ]
    return Shown(text, table("chkpoint", rows))


@execute.add("exec", "show checkpoint <name:long>")
def show_checkpoint(context: Context, match: Match) -> Shown:
    item = _checkpoint(context, match)
    rule = "-" * 80
    return Shown(f"{rule}\nName: {item.name}\n\n!Command: Checkpoint cmd vdc 1\n\n{item.text}")


@execute.add("exec", "show diff rollback-patch checkpoint <name:long> running-config")
def diff_to_running(context: Context, match: Match) -> Shown:
    """Show the lines that lead from the checkpoint to the running configuration."""
    source = running_blocks(parse_config(context.switch.platform, _checkpoint(context, match).text)[0])
    return _diff(patch(source, running_blocks(context.config)))


@execute.add("exec", "show diff rollback-patch running-config checkpoint <name:long>")
def diff_to_checkpoint(context: Context, match: Match) -> Shown:
    """Show what a rollback to the checkpoint would do."""
    target = running_blocks(parse_config(context.switch.platform, _checkpoint(context, match).text)[0])
    return _diff(patch(running_blocks(context.config), target))


@execute.add("exec", "show diff rollback-patch checkpoint <name:long> checkpoint <other:long>")
def diff_of_checkpoints(context: Context, match: Match) -> Shown:
    texts = [_checkpoint(context, match, key).text for key in ("name", "other")]
    source, target = (running_blocks(parse_config(context.switch.platform, text)[0]) for text in texts)
    return _diff(patch(source, target))


def _diff(lines: list[str]) -> Shown:
    body = "!!\n" + "".join(f"{line}\n" for line in lines) if lines else "Rollback Patch is Empty\n"
    return Shown(f"Collecting Running-Config\n#Generating Rollback Patch\n{body}")


@execute.add(
    "exec", "rollback running-config checkpoint <name:long> [atomic|best-effort|stop-at-first-failure] [verbose]"
)
def rollback(context: Context, match: Match) -> str:
    target, rejected = parse_config(context.switch.platform, _checkpoint(context, match).text)
    lines = patch(running_blocks(context.config), running_blocks(target))
    text = "Note: Applying config parallelly may fail Rollback verification\n"
    text += "Collecting Running-Config\n#Generating Rollback Patch\n"
    if not lines and not rejected:
        return f"{text}Rollback Patch is Empty\n\nRollback completed successfully.\n"
    if rejected:
        raise Rejected(f"{text}ERROR: Rollback failed: {rejected[0]}\n")
    context.switch.replace_running(target)
    steps = "Executing Rollback Patch\nGenerating Running-config for verification\nGenerating Patch for verification\n"
    return f"{text}{steps}Verification is Successful.\n\nRollback completed successfully.\n"
