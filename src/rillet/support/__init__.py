"""Tools of every stage: files, temporary folders, worker processes, progress, plugins."""
