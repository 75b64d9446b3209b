"""Starts ranks on nodes, watches them, and ends them without orphans; what they compute is up to the job.

placement     where ranks run: nodes, addresses, interfaces, environment, files, agents
job           what is run: the ranks of each generation, and what becomes of their messages
spec          what every rank is given;  rank  the entry point of every rank;  messages  its way back
supervise     runs a job, generation by generation;  generation  one of them;  ranks  the state of its ranks
roster        the state of every node;  reachability  which nodes reach each other over the rail
agentlink     the control end of an agent;  protocol  the messages between the two
rdma          whether RDMA can use a port, and if not, why
fabric        the environment of NCCL, UCX and Gloo on each node, with the reason for every line
node/         what runs on a node: the agent and the ranks' processes
files/        files on nodes: shipped, checked before use, listed and removed
"""
