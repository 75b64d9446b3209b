"""What emulated devices share: their control socket, injected faults, logins, host key, and program around them.

Read `control_socket.py` first.
"""
