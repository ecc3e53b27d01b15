"""Pictures for ``--plot``, drawn by matplotlib, which is imported only to draw."""
