"""Active attacks: what a party does whatever hostile members send it."""
