"""PrivKV and PrivKVM: the keys that respondents hold, and their values."""
