"""Benchmarks, run by hand: each times the product beside a floor, in one run."""
