"""An audit as one HTML page."""
