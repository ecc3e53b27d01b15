"""Which protocol to take: candidates, the errors predicted of them, and what they cost."""
