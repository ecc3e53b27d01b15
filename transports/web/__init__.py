"""HTTP, for browsers and other programs."""
