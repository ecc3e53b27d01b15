"""Secure sums: shares, masks, graphs of neighbours, and their dialogues."""
