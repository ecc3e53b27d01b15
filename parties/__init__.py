"""Actors: code that gives a role of a protocol a life in time, over a channel."""
