"""The command line: grammar, modes, sessions, the interactive terminal. Read `interpreter.py` first."""
