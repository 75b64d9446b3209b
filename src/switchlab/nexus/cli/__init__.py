"""The command line: grammar, modes, sessions, the interactive terminal."""
