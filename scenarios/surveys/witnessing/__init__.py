"""Witnesses of checkpoints over HTTP: servers, and clients that ask them."""
