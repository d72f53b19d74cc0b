"""What all recipes share: rows that say how they were made, judges, pictures."""
