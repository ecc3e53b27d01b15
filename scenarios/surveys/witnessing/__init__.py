"""Witnesses of checkpoints over HTTP: those that cosign, and those that ask them."""
