"""How reports should be made, by simulation on public synthetic people."""
