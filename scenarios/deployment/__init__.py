"""Surveys among real parties: keys, the two sides over TLS, what a party remembers."""
