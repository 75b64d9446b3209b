"""Starts ranks on nodes, watches them, and ends them without orphans; what they compute is not its business.

agent       runs on each node: starts the ranks there, relays what they say, ends them when nobody listens any more
spawn       the processes of ranks on a node
nursery     forks them from a process that has loaded torch already, so that a restart does not wait for that
ship        puts this railbed, and files by their content, on the nodes
guard       what of our folder on a node can be trusted
keeper      runs on a node: puts, lists, removes and sends files of our folder;  keeping: our end of it
link        our end of an agent: messages both ways, and heartbeats
reach       who reaches whom over the rail
members     which nodes take part, which are out, and why
job         what is run: the ranks of a generation, and who is told what they say
ranks       what is known of the ranks of a generation: who lives, who is late, who is done
supervise   generations of ranks: one goes on until it is done or something fails, then the next starts with who is left
paths       which ports RDMA can use, and why not the others
fabric      the environment of NCCL, UCX and Gloo on each node, with the reason for every line
memlock     how much memory a rank may lock for RDMA
protocol    the messages between the two ends
messages    what a rank says, and its heartbeat
"""
