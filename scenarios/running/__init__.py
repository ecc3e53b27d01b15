"""Scenarios: what one is, and how it is found, run and summed up."""
