"""The project beside other libraries, which live in environments made for them."""
