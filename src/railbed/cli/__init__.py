"""Arguments in, records out: the only code that prints, handles signals and exits. Read `main.py` first.

`main.py` has the verbs and the only place that catches errors. Then read `run/perform.py`, which shows each record of a
verb and returns the exit code.

- `verbs/`: one command per verb. `screens/`: records for people or as JSON lines. `background/`: detached runs.
- `run/`: a verb's run, its signals, and what remains of it. `console.py`: text that cannot control the terminal.
- `options.py`, `site.py`, `site.py`: shared options, and which cluster they select.
- `main.py`, `hints.py`: messages about arguments; the cluster file in commands that messages contain.
- `console.py`: writes a page.
- `main.py`: `railbed --help` without importing a verb.
"""
