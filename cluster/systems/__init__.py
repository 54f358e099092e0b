"""What is installed and started on a backend: how to configure a system and find its traces."""
