"""What several rules share: cards and what they can do, counters and what they mean, comparing nodes, wording."""
