"""Enrolment in a real survey: invitations, requests, admissions, and the roster that follows."""
