"""What a task costs in tokens when its tools are searched for, beside listing everything."""
