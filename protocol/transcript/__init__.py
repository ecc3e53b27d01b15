"""The record of a run: entries, blocks, digests and their verification."""
