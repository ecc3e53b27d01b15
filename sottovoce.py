"""Survey protocols that protect every answer: leads to ``protocol`` and ``scenarios``."""

import protocol as protocol
import scenarios as scenarios
