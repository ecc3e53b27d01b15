"""Statement of an audit of a transcript."""
