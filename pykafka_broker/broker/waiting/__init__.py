"""Wait without a thread: futures, the purgatory of delayed operations, long work in slices."""
