"""Statements of designs: recommendations, rankings, and needs for an error."""
