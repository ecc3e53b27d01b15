"""Frequency oracles: randomizers whose reports count for several codes each."""
