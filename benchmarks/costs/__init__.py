"""What surveys cost by their number of respondents: measured, kept in a file, and drawn."""
