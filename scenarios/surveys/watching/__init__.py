"""A survey as it goes on: the same steps of a live run and of its transcript."""
