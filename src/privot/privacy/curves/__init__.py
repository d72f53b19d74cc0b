"""What noise promises, and what noise a promise takes."""
