"""Starts ranks on nodes, watches them, and ends them without orphans; what they compute is up to the job.

job           what is run: the ranks of each generation, and what becomes of their messages
supervise     generations of ranks: each runs until it is done or something fails, then the next one starts
ranks         the state of a generation's ranks: alive, late, done
roster        which nodes take part, which are excluded, and why
reachability  which nodes reach each other over the rail
agentlink     the control end of an agent: messages both ways, and heartbeats
rdma          which ports RDMA can use, and why not the others
fabric        the environment of NCCL, UCX and Gloo on each node, with the reason for every line
memlock       how much memory a rank may lock for RDMA
protocol      the messages between control and agent;  messages  those of a rank, and its heartbeat
node/         what runs on a node: the agent and the ranks' processes
files/        files on nodes: shipped, checked before use, listed and removed
"""
