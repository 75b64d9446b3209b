"""The torch side of an all-reduce: one interface, and the engines that implement it. Read `group.py` first.

group       what a group of ranks can do: sum, broadcast, and the exchanges that only benchmarks need; gloo and nccl,
            through torch.distributed; the group of a single rank
rendezvous  how ranks find each other: explicit address, interface and time-out, never a guessed host name
keys        the keys and values that ranks share;  keyserver  serves them on rank 0;  channel  authenticates both ends
connect     joins the group over the requested engine, or the best one that works
choose      what each rank reports about itself, and the engine that follows from that and from the tests
mpi         MPI over UCX;  pmi  makes ranks one MPI world without mpiexec
timing      measures an all-reduce;  mpitest  tests MPI in a separate process, where a crash does no harm
"""
