"""One command per verb: a module, or a package with a module `command`. Read `check/command.py` first.

`railbed.cli.main.VERBS` lists them. A command is called `VERB_command`: a function, or a group of further commands.
"""
