"""What the network services of a machine store for its interfaces, and will set at boot. Read `stored.py` first."""
