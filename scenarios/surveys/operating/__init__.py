"""A survey as a service: progress, monitoring, and early endings."""
