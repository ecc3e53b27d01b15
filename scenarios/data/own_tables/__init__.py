"""A person's own table: how it is read, what a plan makes of it, and a first plan for it."""
