"""Usefulness of estimates, and what would make them more useful."""
