"""Pause frames."""
