"""Engines: where independent tasks of a simulation are carried out, here or by many workers."""
