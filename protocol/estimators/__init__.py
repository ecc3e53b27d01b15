"""What an aggregator computes from randomized reports."""
