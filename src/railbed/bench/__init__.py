"""Measure what links, disks and collectives deliver, and judge whether that is good for this hardware.

Read `run.py` first.

run           the verb: read the ports, measure a suite, judge the numbers
suite         what to measure, as YAML files in `suites/`;  builtin  loads them by name, and other files by path
tool          the interface of tools; `tools/` has one file per program: how to call it, and a parser for its output
site          facts about the ports: devices, GIDs, speeds, PCIe
schedule      the trials of a suite;  pace  when they run, and how long they take
trials        run them, and report their numbers;  exchange  one of them: servers and clients on real nodes
wrapper       the shell around a tool, which reads the CPU time of its node
remeasure     slow paths again, before they are judged
paths         which numbers belong together;  outliers  compares them with each other and with the hardware
baseline      compares them with those of a good run
book          the verdicts about numbers; `rules/` has one file per rule
compare       A against B: two arms in turns, or in two visits;  `experiments/` has the questions, as YAML files
path          `check --prove path`: a marked stream, followed from counter to counter
collective    collectives over all nodes in one job, with its torch side in `collective/worker/`
"""
