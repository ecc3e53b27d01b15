"""Randomizers of numbers, to estimate their mean."""
