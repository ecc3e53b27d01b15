"""Simulated surveys: everything from one seed, and recorded rehearsals."""
