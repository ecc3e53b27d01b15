"""``sottovoce attack``: passive observers and hostile members."""
