"""The switch as data: platform, configuration, counters, forwarding."""
