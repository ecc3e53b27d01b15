"""Active attacks: the conduct of a party that receives messages from hostile members."""
