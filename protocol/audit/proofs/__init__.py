"""Proofs for members without the transcript: receipts, and consistency of the log."""
