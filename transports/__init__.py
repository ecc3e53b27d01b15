"""Ways to move envelopes between parties: in memory, over TCP, over TLS."""
