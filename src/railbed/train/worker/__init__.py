"""What runs on a node, one process for each rank. torch is imported here (and in `collective`) and nowhere else."""
