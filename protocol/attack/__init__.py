"""An empirical lower bound on epsilon: how well runs on neighbouring records are distinguished."""
