"""``sottovoce attack``: what an observer learns, and what a hostile aggregator brings out."""
