"""Protocols of numbers, of which means are estimated."""
