"""Measure what links, disks and collectives deliver, and judge whether that is good for this hardware.

Read `run.py` first.

run           the verb: read the ports, measure a suite, judge the numbers
suite suites/ what to measure, as YAML files
tool tools/   one file per program: how to call it, and a pure parser for its output;  toolset  all of them by name
site          facts about the ports: devices, GIDs, speeds, PCIe
measure/      patterns and schedules; servers and clients on real nodes; numbers as records
judge/        compare numbers with the hardware, the other links, and the baseline
book rules/   the verdicts about them, one file per rule
compare/      A against B: two arms in turns, or in two visits;  experiments/  the questions, as YAML files
collective/   collectives over all nodes in one job, with its torch side in worker/
builtin       loads built-in suites and experiments by name, and other files by path
"""
