"""What several rules have in common."""
