"""The errors of variants on a person's own records: measured, beside what is predicted."""
