"""What runs on a node: the agent, and the processes of the ranks it starts. Standard library only.

Read `agent.py` first.
"""
