"""Links of a real survey: nothing leaves before what it follows from is on disk."""
