"""What keeps the caches useful: stores past them, prefetching, reading ahead."""
