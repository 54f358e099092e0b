"""What commands print: progress and answers, on a terminal or into a pipe, and signals."""
