"""Populations by law, and the counting of cohorts that are drawn from them."""
