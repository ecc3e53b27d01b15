"""A survey as a service: how it goes, who is told, and what may end it early."""
