"""What Privot is compared with: oracles that should win, and losses that should fail."""
