"""Probes of Cisco Nexus switches, one per show command: JSON where the switch prints it, else text."""
