"""The figures of marginal release."""
