"""``sottovoce attack``: what an observer learns, and what hostile members bring out."""
