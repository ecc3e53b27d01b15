"""Error of an estimate: its law, intervals, covariances and tests."""
