"""Output of Cisco Nexus switches: `answer.py` reads their JSON and the names of ports, `qos.py` their QoS settings.

Read `answer.py` first.
"""
