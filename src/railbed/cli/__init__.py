"""Arguments in, records out: the only code that prints, and the only exit codes.

Open `main.py` first (the verbs and the one place that catches errors), then `perform.py`: the loop around every verb
that stores each record, shows it and turns the end into an exit code.

- `verbs/`: one command per verb. `screens/`: records for people or as JSON lines. `background/`: detached runs.
- `signals.py`: Ctrl-C, SIGTERM and a closed terminal. `stream.py`, `console.py`: text that cannot steer the terminal.
- `options.py`, `site.py`, `local.py`: shared options, and which cluster they select.
- `usage.py`, `hints.py`: messages about arguments; the cluster file in the commands that messages name.
- `unfinished.py`: what remains of an interrupted run. `pagefile.py`: writes a page.
- `summaries.py`: `railbed --help` without importing a verb.
"""
