"""Another user of this machine holds locks, addresses and processes that labs could take for their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from railbed.lab import folder
from railbed.lab.folder import NumberTaken
from railbed.lab.host import HostFault, find_processes
from railbed.lab.model import Spec
from railbed.lab.netns.machine import processes
from railbed.lab.up import _claim_number
from railbed.lab.vm import cache
from railbed.lab.vm.kind import CLAIM, VmKind
from railbed.lab.vm.qemu.machine import PORT
from railbed.store.cache import make_folder
from railbed.store.run_lock import only_one
from tests.support.ranks import wait_for
from tests.support.strangers import run_as, start_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to create another user")
HOLD = """
import fcntl, os, sys
for path in sys.argv[1:]:
    try:
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(path)
    except OSError:
        pass
print(flush=True)
input()
"""
SPEC = Spec(name="lab", kind="netns", nodes=1)


@contextmanager
def holding(name: str, *paths: Path) -> Iterator[list[str]]:
    """Let another user lock whatever he can open; yield what he holds."""
    with start_as(name, 'exec python3 -c "$@"', HOLD, *paths) as process:
        assert process.stdout
        assert process.stdin
        lines = []
        while (line := process.stdout.readline()) not in ("\n", ""):
            lines.append(line.strip())
        try:
            yield lines
        finally:
            process.stdin.close()
            process.wait(60)


def test_nobody_else_can_hold_a_lock(
    stranger: str, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The cache is in a folder that everybody can enter, and was made by an earlier version."""
    place = shared / "cache"
    for name in ("labs", "images"):
        (place / name).mkdir(parents=True)
        (place / name).chmod(0o755)
    monkeypatch.setenv("RAILBED_CACHE", str(place))
    with folder.machine_locked(), folder.create_lab(SPEC, set()) as lab:
        cache.clear_unless_busy()
    with only_one("configure", ["10.0.0.1"], tmp_path / "run"):
        pass
    make_folder("images")
    files = list(place.rglob("*"))
    with holding(stranger, folder.MACHINE, place, *files) as held:
        assert held == [str(place)], "nothing locks the cache itself"
        with folder.machine_locked(), folder.lock_lab(lab):
            assert folder.load_labs() == [lab]
        assert not cache.is_busy()
        with only_one("configure", ["10.0.0.1"], tmp_path / "run"):
            pass
    folder.remove(lab)


def test_who_holds_run_blocks_no_lab(stranger: str, own: Path) -> None:
    with holding(stranger, Path("/run"), Path("/run/lock"), Path("/tmp")) as held:
        assert "/run" in held
        with folder.machine_locked(), folder.create_lab(SPEC, set()) as lab:
            pass
    folder.remove(lab)
    assert not own.exists()


def test_a_folder_for_the_machine_that_is_not_roots_is_refused(
    stranger: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MACHINE", shared / "railbed")
    run_as(stranger, 'mkdir "$1"', shared / "railbed")
    with pytest.raises(HostFault, match="railbed is not a folder of root"), folder.machine_locked():
        pass


def test_a_number_whose_address_local_user_takes_is_left_to_him(stranger: str, own: Path) -> None:
    """Users of vm labs need no lock that all of them could hold: only one process can listen on an address."""

    async def numbers(spec: Spec) -> tuple[int, int]:
        kind = VmKind()
        with folder.create_lab(spec, await kind.taken_numbers()) as lab:
            listen = "import socket; s = socket.create_server(('127.77.%d.%d', %d)); print(1, flush=True); input()"
            with start_as(stranger, 'exec python3 -c "$1"', listen % (lab.number, CLAIM, PORT)) as process:
                assert process.stdout
                assert await asyncio.to_thread(process.stdout.readline)
                with pytest.raises(NumberTaken):
                    await kind.claim(lab)
                claimed = await _claim_number(lab)
                assert process.stdin
                process.stdin.close()
            assert folder.load_labs() == [claimed]
            folder.remove(claimed)
            return lab.number, claimed.number

    first, second = asyncio.run(numbers(Spec(name="lab", kind="vm", nodes=1)))
    assert first != second
    assert not own.exists()


def test_a_process_of_somebody_else_is_not_that_of_a_node(stranger: str, own: Path) -> None:
    """A node would count as up, and a killed one would not start again."""
    with folder.create_lab(SPEC, set()) as lab:
        (node,) = lab.nodes
        argument = f"--net=/run/netns/railbed-{lab.id}-{node.name}"
        # It asks for a password, and meanwhile has the rights of root.
        with start_as(stranger, 'exec su root -- "$1"', argument) as process:
            wait_for(lambda: Path(f"/proc/{process.pid}").stat().st_uid == 0)
            assert argument.encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert processes(lab, lab.nodes) == []
            process.kill()
    folder.remove(lab)
    assert not own.exists()


def test_the_process_of_a_switch_is_that_of_its_user(stranger: str, own: Path) -> None:
    """With a mount namespace of his own, anybody can be in a folder of any name."""
    enter = (
        'mount -t tmpfs none "$1" && mkdir -p "$2" && cd "$2" && exec python3 -c "print(1, flush=True); input()" "$3"'
    )
    unshare = 'exec unshare --user --map-root-user --mount sh -c "$@"'
    with folder.create_lab(SPEC, set()) as lab:
        tag = str(lab.folder / "nexus")
        top = Path("/", lab.folder.parts[1])
        with start_as(stranger, unshare, enter, "sh", top, lab.folder, tag) as process:
            assert process.stdin
            assert process.stdout
            if process.stdout.readline() != "1\n":
                pytest.skip("needs namespaces for ordinary users")
            assert Path(f"/proc/{process.pid}/cwd").readlink() == lab.folder
            assert find_processes(lab, tag) == []
            process.stdin.close()
    folder.remove(lab)
    assert not own.exists()
