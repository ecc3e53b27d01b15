"""Judges a transcript: who took part, what was learned, whether the result follows."""
