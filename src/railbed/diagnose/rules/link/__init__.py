"""Cables and links: damaged, down, slow or lossy."""
