"""Commands that judge or read a transcript, or check proofs from one."""
