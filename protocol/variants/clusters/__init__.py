"""RR-Clusters: attributes that depend on each other are randomized together."""
