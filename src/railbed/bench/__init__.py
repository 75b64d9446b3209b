"""Measures what links, disks and collectives really do, and says whether that is good for this hardware.

suite, suites/   what to measure, as a file;  plan, pattern  which ends, in which order, at the same time or one by one
tool, tools/     one file per program: how it is called, and a pure parser of what it prints
site             what is known of the ports: devices, GIDs, speeds, PCIe
exchange         a server started, awaited, and always ended; a client;  trials  one after the other
limits, outliers, baseline   three judgements of a number: against the hardware, the others, and what it was before
secondlook       what few measurements show to be slow is measured again before it is named
collect, worker  railbed's own collective benchmark, over the launcher
versus, experiment, change   two arms in turns, what is made different for one, and their difference
run              the verb
"""
