"""Whether a randomizer does what its file promises: by arithmetic, by law, by trial."""
