"""Starts ranks on nodes, watches them, and ends them without orphans; the job defines what they compute.

Read `supervise.py` first.

placement   where ranks run: nodes, addresses, interfaces, environment, files, agents
job         what is run: the ranks of each generation, and how their messages become records
spec        the specification of a rank;  rank  the entry point of every rank
supervise   runs a job, generation by generation;  generation  one of them;  meeting  where its ranks meet
roster      the state of every node
agentlink   the control end of an agent;  messages  those of ranks, and those between control and agent
rdma        whether RDMA can use a port, and if not, why
fabric      the environment of NCCL, UCX and Gloo on each node, with the reason for every line
node        the code that runs on nodes: the agent and the ranks' processes
files       files on nodes: shipped, checked before use, listed and removed
"""
