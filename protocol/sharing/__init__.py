"""Sums that nobody can take apart: shares, masks, graphs of neighbours, and their dialogues."""
