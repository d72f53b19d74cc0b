"""What a report says of a record: costs, channels, heads."""
