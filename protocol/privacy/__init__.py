"""Privacy events, the accountants that judge them, and the ledger."""
