"""Reports: what a run, a transcript or an audit says, for people."""
