"""What everything stands on: errors, files, the folder of state, processes, compiled loops."""
