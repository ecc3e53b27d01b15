"""Files: records, checkpoints and results that are kept, and Python files that a person named."""
