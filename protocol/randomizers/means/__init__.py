"""Randomizers of numbers, of which the mean is estimated."""
