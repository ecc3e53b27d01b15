"""What may be said of the error of an estimate: its law, intervals, covariances and tests."""
