"""Payments from a purse, and the merging of purses."""
