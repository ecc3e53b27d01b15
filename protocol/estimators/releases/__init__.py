"""One estimate from several releases of the same respondents' answers."""
