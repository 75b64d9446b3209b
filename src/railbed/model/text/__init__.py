"""Texts: amounts with units, text that cannot control a terminal, and text without secrets."""
