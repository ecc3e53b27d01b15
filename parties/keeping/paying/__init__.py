"""Who pays from a purse, and what puts together what several have kept of it."""
