"""The tables and figures of multi-dimensional randomized response."""
