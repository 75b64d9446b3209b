"""What rules about a Nexus share: `qos.py` has what is in force, `lines.py` the configuration that would be right."""
