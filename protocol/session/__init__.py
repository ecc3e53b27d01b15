"""One session of a protocol: roles, machines, the exchange between them, the local executor."""
