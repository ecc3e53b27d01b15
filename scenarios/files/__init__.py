"""Transcripts and checkpoints as files."""
