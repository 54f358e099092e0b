"""Many runs: their rows, figures, comparisons, trends and the page of all."""
