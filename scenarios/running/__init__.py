"""Scenarios: finding, running and summing them up."""
