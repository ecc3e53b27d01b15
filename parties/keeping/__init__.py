"""Keeping in a member's folder: secrets, attempts, receipts, answers, and what it spends."""
