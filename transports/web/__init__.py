"""HTTP: what browsers and other programs reach over it."""
