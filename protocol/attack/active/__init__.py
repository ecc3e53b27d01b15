"""Active attacks: what a party does whatever a hostile aggregator sends it."""
