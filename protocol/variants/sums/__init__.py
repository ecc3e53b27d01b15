"""Protocols around secure sums: exact counts, and sums of randomized pairs."""
