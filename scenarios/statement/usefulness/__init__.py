"""How useful estimates are, and what would make them more useful."""
