"""What a rank measures and reports.

clock         where the time of a step goes
progress      steps, choices and memory as messages
counters      network counters of the node
connections   TCP traffic of the node by connection
"""
