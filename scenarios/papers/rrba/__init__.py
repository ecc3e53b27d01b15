"""The tables and figures of RRBA."""
