"""Protocols of several attributes, each through a frequency oracle: SPL, SMP and RS+FD."""
