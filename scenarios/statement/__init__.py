"""Statements of any result, made once as values; terminal, page and JSON print them."""
