"""Questionnaires that other programs hold: XLSForms and data dictionaries of REDCap."""
