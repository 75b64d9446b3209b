"""What a rank measures and reports. Read `progress.py` first.

clock         the time of each part of a step
progress      steps, choices and memory as messages
counters      network counters of the node
connections   TCP traffic of the node by connection
"""
