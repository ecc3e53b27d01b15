"""Commits of the record: when entries reach its file, and when they are on disk."""
