"""Choice of a protocol: candidates, the errors predicted of them, and what they cost."""
