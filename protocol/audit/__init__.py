"""Judges a transcript: participation, privacy, and whether the result follows."""
