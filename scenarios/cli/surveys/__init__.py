"""The commands about surveys among real people."""
