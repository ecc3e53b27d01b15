"""Benchmarks, run by hand: each times the product and, in the same run, a floor to hold it against."""
