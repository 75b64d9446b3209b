"""Congestion: notifications, and what senders do about them. Read `ignored.py` first."""
