"""When what is recorded reaches its file, and when it is on disk."""
