"""Usefulness of estimates, and changes that would improve it."""
