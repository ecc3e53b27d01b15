"""Files that people give and get: transcripts, settings, tables, pieces of work, Python files."""
