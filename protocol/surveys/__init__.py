"""Surveys and the records that answer them."""
