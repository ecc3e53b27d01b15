"""Protocols of one randomized report: RR-Independent, RR-Joint and RR-Ind-Joint."""
