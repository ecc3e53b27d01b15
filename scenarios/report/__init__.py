"""Reports on runs, transcripts and audits, for people."""
