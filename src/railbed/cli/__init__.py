"""The command line: arguments in, records out. The only code that prints and the only exit codes."""
