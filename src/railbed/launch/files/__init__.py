"""Files on nodes: shipped, checked before use, listed and removed."""
