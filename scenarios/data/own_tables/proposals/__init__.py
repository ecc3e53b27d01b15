"""Proposals for single columns of a person's own table."""
