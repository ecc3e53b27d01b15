"""Payers from a purse, and the merging of what several have kept of it."""
