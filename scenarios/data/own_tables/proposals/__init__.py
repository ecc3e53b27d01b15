"""Proposals for single columns of a user's own table."""
