"""The torch side of a collective: one face, and the engines behind it.

face        what a rank can do together with the others
meet        how ranks find each other: explicit address, interface and time-out, no guessed host name
keystore    the keys and values that ranks share;  keyserver  rank 0 serves them;  channel  to who knows the secret
connect     joins the others over the engine that was asked for, or the best that works
roll        what each rank says of itself first;  choose  what follows from it and from the trials
group       gloo and nccl, through torch.distributed
mpi         MPI over UCX;  library  starts it;  pmi  makes ranks one MPI world without mpiexec
trial       how fast an all-reduce is;  tryout  tries MPI where its crash does no harm
alone       one rank
"""
