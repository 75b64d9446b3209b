"""A switch over real SSH: OpenSSH with a forced command that answers like the command line of a switch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from railbed.errors import DeviceError
from railbed.fleet import DeviceAnswer, Fleet
from railbed.model.cluster import Login
from railbed.transport.base import Command, Target
from railbed.transport.connect import live_connector
from tests.support.sshd import SSHD, Servers, running_servers

pytestmark = [pytest.mark.ssh, pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed")]

COMMAND_LINE = """#!/bin/sh
case "$SSH_ORIGINAL_COMMAND" in
  "show new | json") echo '{"a": 1}';;
  "show old | json") printf "                 ^\\n%% Invalid command at '^' marker.\\n";;
  "show old") echo "text of old";;
  "show error") echo "ERROR: no such policy"; exit 0;;
  "show percent") printf "load\\n%% of the time\\n";;
  "show slow") echo begun; sleep 60;;
  "show endless") yes;;
  "show broken") echo "half"; kill -9 $PPID;;
  *) printf "%% Incomplete command at '^' marker.\\n"; exit 16;;
esac
"""


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Servers]:
    shell = tmp_path / "command_line"
    shell.write_text(COMMAND_LINE)
    shell.chmod(0o755)
    folder = tmp_path / "server"
    folder.mkdir()
    with running_servers(1, folder, shell=str(shell)) as servers:
        yield servers


def target_of(servers: Servers) -> Target:
    (server,) = servers.servers
    login = Login(user=servers.user, port=server.port, key=str(servers.key), known_hosts=str(servers.known_hosts))
    return Target(name="s1", host=server.address, login=login, kind="switch")


async def ask(servers: Servers, *commands: Command) -> DeviceAnswer:
    async with (
        live_connector() as connect,
        Fleet([target_of(servers)], connect, timeout=20.0) as fleet,
        aclosing(fleet.run({"s1": commands})) as answers,
    ):
        return await anext(answers)


async def test_each_command_has_a_channel_of_its_own_and_the_first_accepted_form_counts(switch: Servers) -> None:
    answer = await ask(
        switch,
        Command(key="new", script="show new | json\nshow new"),
        Command(key="old", script="show old | json\nshow old"),
        Command(key="percent", script="show percent"),
    )
    assert answer.failure is None
    assert [(output.key, output.command, output.text, output.exit) for output in answer.outputs] == [
        ("new", "show new | json", '{"a": 1}\n', 0),
        ("old", "show old", "text of old\n", 0),
        ("percent", "show percent", "load\n% of the time\n", 0),
    ]


async def test_both_forms_of_refusal_are_errors_whatever_the_exit_status(switch: Servers) -> None:
    answer = await ask(switch, Command(key="error", script="show error"), Command(key="no", script="show nothing"))
    assert [(output.stdout, output.complaint, output.exit) for output in answer.outputs] == [
        (b"", "ERROR: no such policy", 1),
        (b"", "% Incomplete command at '^' marker.", 1),
    ]


async def test_a_command_that_hangs_or_never_stops_printing_costs_only_itself(switch: Servers) -> None:
    answer = await ask(
        switch,
        Command(key="slow", script="show slow", timeout=0.5),
        Command(key="endless", script="show endless"),
        Command(key="old", script="show old"),
    )
    slow, endless, old = answer.outputs
    assert (slow.stdout, slow.failure) == (b"begun\n", "did not finish within 0.5 s")
    assert "printed more than" in endless.failure
    assert old.text == "text of old\n"


async def test_a_connection_that_breaks_is_a_value(switch: Servers) -> None:
    answer = await ask(switch, Command(key="old", script="show old"), Command(key="broken", script="show broken"))
    assert [output.key for output in answer.outputs] == ["old"]
    assert answer.failure
    assert "in the middle of broken" in answer.failure.reason


async def test_a_switch_runs_no_programs(switch: Servers) -> None:
    async with live_connector() as connect, Fleet([target_of(switch)], connect) as fleet:
        with pytest.raises(DeviceError, match="s1 is a switch, which cannot run python3"):
            async with fleet.open("s1", "python3 -c x"):
                pass
