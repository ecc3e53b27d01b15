"""An empirical lower bound on epsilon, by distinguishing runs on neighbouring records."""
