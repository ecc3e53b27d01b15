"""What an audit of a transcript says."""
