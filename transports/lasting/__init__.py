"""Links of a real survey: nothing is sent before its causes are on disk."""
