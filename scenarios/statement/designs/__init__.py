"""What is stated of designs: a recommendation, the ranking, or what an error takes."""
