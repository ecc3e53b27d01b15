"""Surveys among real parties: plans, enrolment, the two sides over TLS, operation, witnesses."""
