"""Shards: many parties of a simulation behind one connection, in a worker that dials in."""
