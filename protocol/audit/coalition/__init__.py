"""Knowledge of members, wiretappers and holders of keys together."""
