"""Statements of designs: a recommendation, the ranking, or what an error takes."""
