"""Experiments, datasets, reports and the command line."""
