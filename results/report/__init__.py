"""A run's report: page, story, pictures and JUnit."""
