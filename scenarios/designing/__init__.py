"""Choice of a protocol: candidates, their predicted errors, and their costs."""
