"""Watching a survey: the same steps for live runs and transcripts."""
