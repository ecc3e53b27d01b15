"""What a scenario is, and how one is found, run and summed up."""
