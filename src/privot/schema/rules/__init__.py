"""Rules between columns, which samples keep and devices never see."""
