"""Commands that judge or read a transcript, or check what was drawn from one."""
