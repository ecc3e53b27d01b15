"""Files in a member's folder: secrets, attempts, receipts, answers, and spending."""
