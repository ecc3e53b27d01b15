"""Tables that share attributes: made consistent, and joined."""
