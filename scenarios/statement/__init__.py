"""What any result says, stated once as values; terminal, page and JSON print them."""
