"""Numbers, names and sentences that several rooms put before a person."""
