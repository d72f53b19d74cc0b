"""Records that stream through a randomizer: parts, random order, one publication."""
