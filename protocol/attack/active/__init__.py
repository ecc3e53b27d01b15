"""Active attacks: the behaviour of a party towards hostile members."""
