"""Holding a survey: as the aggregator, over TLS or from a page, interrupted or restored."""
