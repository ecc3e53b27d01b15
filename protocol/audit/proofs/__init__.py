"""Proofs for those who do not hold the transcript: receipts, and that nothing was taken back."""
