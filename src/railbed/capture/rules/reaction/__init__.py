"""Congestion: notifications, and what senders do about them."""
