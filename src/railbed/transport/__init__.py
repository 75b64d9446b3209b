"""The only code that talks to a machine: local, ssh, and their peer replay; record keeps what any of them said."""
