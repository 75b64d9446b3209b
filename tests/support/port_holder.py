"""Another user of a node, who holds ports of the ranks: `port_holder.py PORT…`.

Until its input ends, it holds these ports on every address, and any port that it has seen a program listen on, other
than on loopback, as soon as it is free. It prints `ready` once, and `took PORT` for every port that it took over.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys

held: dict[int, socket.socket] = {}
EVERYWHERE = ""


def hold(port: int) -> bool:
    """Hold a port if it is free."""
    with contextlib.suppress(OSError):
        held[port] = socket.create_server((EVERYWHERE, port))
    return port in held


def listening() -> set[int]:
    """Return the ports on which programs listen now."""
    rows = subprocess.run(["ss", "-Htln"], capture_output=True, text=True, check=True).stdout.splitlines()
    ends = [row.split()[3].rpartition(":") for row in rows]
    return {int(port) for address, _, port in ends if not address.startswith(("127.", "[::1]")) and port.isdigit()}


wanted = {int(port) for port in sys.argv[1:]}
assert all(map(hold, wanted)), "another program holds one of the ports"
sys.stdout.write("ready\n")
sys.stdout.flush()
while not select.select([sys.stdin], [], [], 0.05)[0]:
    wanted |= {port for port in listening() if port > 1024}
    for port in wanted - set(held):
        if hold(port):
            sys.stdout.write(f"took {port}\n")
            sys.stdout.flush()
