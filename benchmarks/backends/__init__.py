"""What a fault costs: commands, cuts, kills and starts in containers, beside one exec a command."""
