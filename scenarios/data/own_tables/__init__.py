"""Users' own tables: reading them, coding them by a plan, and proposing a first plan."""
