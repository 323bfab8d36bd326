"""Changes of a kernel before it is planned."""
