"""Privacy events that messages reveal, and what events cost alone and together."""
