"""What is seen of nodes in a simulated world that they do not trace themselves."""
