"""RRBA: groups of attributes, asked about in blocks."""
