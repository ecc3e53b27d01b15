"""Protocols of numbers, to estimate their means."""
