"""The tables and figures of PrivKV."""
