"""Many runs: their rows, figures, comparisons and the page of all."""
