"""What a member keeps in its folder: secrets, attempts, receipts, answers, and what it spends."""
