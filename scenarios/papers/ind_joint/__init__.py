"""The example, tables and figures of RR-Ind-Joint."""
