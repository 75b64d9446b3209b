"""How the switch is reached: SSH, NX-API, and the control socket. Read `ssh.py` first."""
