"""The protocols themselves: pure computation, without I/O, clocks or hidden randomness."""
