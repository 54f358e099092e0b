"""What is installed and started on a backend: how to configure, start, stop and find the logs of a system."""
