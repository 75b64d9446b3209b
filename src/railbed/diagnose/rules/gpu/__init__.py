"""GPUs that do less than they could."""
