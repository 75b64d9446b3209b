"""What the recorders themselves missed."""
