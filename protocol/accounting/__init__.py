"""Privacy events of messages, and their costs, alone and together."""
