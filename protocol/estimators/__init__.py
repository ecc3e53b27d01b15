"""Estimates that an aggregator computes from randomized reports."""
