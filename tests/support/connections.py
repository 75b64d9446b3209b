"""Commands on the machines of a vm lab over one connection to each: a login takes an emulated processor two seconds."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field

from railbed.lab.folder import load_lab
from railbed.lab.up import targets
from tests.support.ranks import wait_for

COMMAND_SECONDS = 600.0
CONNECT_SECONDS = 120.0
NULL, PIPE = subprocess.DEVNULL, subprocess.PIPE


@dataclass
class Connections:
    """The connections to the nodes of a lab; one that has broken is made again."""

    lab: str
    _masters: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, node: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a node."""
        words = [*self._words(node), command]
        return subprocess.run(words, stdin=NULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)

    def start(self, node: str, command: str) -> subprocess.Popen[str]:
        """Start a command on a node without waiting for it."""
        words = [*self._words(node), command]
        return subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=subprocess.STDOUT, text=True)

    def close(self) -> None:
        """End all connections."""
        for master in self._masters.values():
            master.terminate()
            master.wait(CONNECT_SECONDS)

    def _words(self, node: str) -> list[str]:
        """Return how a command on a node begins, once there is a connection."""
        lab = load_lab(self.lab)
        target = next(target for target in targets(lab) if target.name == node)
        socket = lab.folder / f"{node}.connection"
        options = (f"-oUserKnownHostsFile={lab.known_hosts}", "-oStrictHostKeyChecking=yes", "-oIdentitiesOnly=yes")
        words = [f"-S{socket}", *options, f"-i{lab.key}", f"-p{target.login.port}", f"root@{target.host}"]
        master = self._masters.get(node)
        if master is None or master.poll() is not None:
            socket.unlink(missing_ok=True)
            master = subprocess.Popen(["ssh", "-MN", *words], stdin=NULL, stdout=NULL, stderr=NULL)
            self._masters[node] = master
            wait_for(socket.exists, CONNECT_SECONDS)
        return ["ssh", *words]
