"""A site of bare machines: two virtual machines as somebody else installed them, and what a site has around them."""
