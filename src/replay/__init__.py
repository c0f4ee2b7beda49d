"""replay: training logbooks and logs as data."""
