"""Calibration: estimates that agree with known margins of the population."""
