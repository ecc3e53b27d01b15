"""Six ways to release marginals of bits."""
