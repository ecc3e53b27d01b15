"""Keystreams, Merkle trees, commitments, secret sharing and sealed boxes."""
