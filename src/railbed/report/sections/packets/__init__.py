"""Sections about packets that were recorded."""
