"""PrivKV and PrivKVM: which keys respondents hold, and with what values."""
