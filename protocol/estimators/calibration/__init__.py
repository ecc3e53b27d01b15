"""Weights, strata and what else makes estimates agree with what is known from elsewhere."""
