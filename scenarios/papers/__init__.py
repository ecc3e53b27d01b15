"""The tables and figures of the papers, run again; each file defines its scenarios."""
