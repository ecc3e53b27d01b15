"""What a message tells, in privacy events, and what events cost alone and together."""
