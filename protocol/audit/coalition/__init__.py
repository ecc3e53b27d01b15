"""What members, wiretappers and holders of keys learn together."""
