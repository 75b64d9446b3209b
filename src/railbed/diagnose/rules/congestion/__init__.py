"""Congestion control: marks, notifications, and whether senders react."""
