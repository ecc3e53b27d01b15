"""Errors of variants on a user's own records, measured and predicted."""
