"""The shell, as clients of such hosts use it."""

from __future__ import annotations

import pytest

from tests.switchlab.esxi.support import Clock, host, run, type_in


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("echo a; echo b", "a\nb\n"),
        ("false && echo a || echo b", "b\n"),
        ("true && echo a || echo b", "a\n"),
        ("echo '==> vmnic3 <=='; echo \"rc=$?\"", "==> vmnic3 <==\nrc=0\n"),
        ("nosuch 2>/dev/null; echo $?", "127\n"),
        ("nosuch 2>&1 | grep -c 'not found'", "1\n"),
        ("for a in 1 2; do echo x$a; done | tail -n 1", "x2\n"),
        ("a='1 2'; for b in $a; do echo $b; done", "1\n2\n"),
        ("a='1 2'; echo \"$a\" ${a}x", "1 2 1 2x\n"),
        ("echo $(echo a; echo b)", "a b\n"),
        ("echo a # a comment\necho b", "a\nb\n"),
        ("printf '%s-%s\\n' a b", "a-b\n"),
        ("echo 'a b' | awk '{print $2}'", "b\n"),
        ("echo a:b | cut -d : -f 2", "b\n"),
        ("echo ' a' | sed 's/^ *//'", "a\n"),
        ("echo aXbX | sed 's/X/-/g'", "a-b-\n"),
        ("echo 'a,b' | tr , '\\n' | sed -n '2p'", "b\n"),
        ("/bin/hostname; /sbin/uname", "esx1\nVMkernel\n"),
        ("echo '[x]' | grep -F '[x]'", "[x]\n"),
        ("echo abc | grep -o 'b.'", "bc\n"),
    ],
)
def test_a_line(line: str, printed: str) -> None:
    assert run(host(), line) == printed


@pytest.mark.parametrize(
    ("line", "error", "status"),
    [
        ("nosuch", "-sh: nosuch: not found\n", 127),
        ("echo 'a", "-sh: syntax error: unterminated quoted string\n", 2),
        ("| grep a", '-sh: syntax error: unexpected "|"\n', 2),
        ("for a in b; echo", '(expecting "do")\n', 2),
        ("sleep 1 &", '-sh: syntax error: unexpected "&"\n', 2),
        ("echo a > /tmp/x", "-sh: can't create /tmp/x: Permission denied\n", 1),
        ("cat /etc/nosuch", "cat: can't open '/etc/nosuch': No such file or directory\n", 1),
        ("hostname -f", "hostname: invalid option -- 'f'\n", 1),
        ("echo a | sed 'y/a/b/'", "sed: unsupported command y/a/b/\n", 2),
        ("echo a | grep '(a*)*'", "", 1),
        ("echo a | grep -E '(a*)*'", "grep: bad regex: repetition of a group\n", 2),
    ],
)
def test_a_line_that_fails(line: str, error: str, status: int) -> None:
    out, errors, ended = type_in(host(), line)
    assert (out, ended) == ("", status)
    assert errors.endswith(error)


def test_the_status_is_that_of_the_last_command() -> None:
    assert type_in(host(), "false; true")[2] == 0
    assert type_in(host(), "exit 3; echo a") == ("", "", 3)


def test_every_command_is_remembered() -> None:
    machine = host()
    run(machine, "esxcli network nic list | grep -c Up; uptime")
    assert machine.commands == ["esxcli network nic list", "uptime"]


def test_uptime() -> None:
    machine = host()
    assert isinstance(machine.clock, Clock)
    machine.clock.now += 3 * 86_400 + 3_723
    assert "up 3 days, 01:02:03, load average" in run(machine, "uptime")


def test_a_loop_without_end_in_sight_is_ended() -> None:
    words = " ".join("abcdefghij" * 2)
    line = "".join(f"for {name} in {words}; do " for name in "vwxyz") + "true; " + "done; " * 5
    assert type_in(host(), line) == ("", "-sh: out of memory\n", 2)
