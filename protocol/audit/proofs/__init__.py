"""Proofs for those who do not hold the transcript: receipts, and extensions of a record."""
