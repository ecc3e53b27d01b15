"""Measures and tests of dependence between attributes, and trees of them."""
