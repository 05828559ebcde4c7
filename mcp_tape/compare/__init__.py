"""What changed between two versions of a server, and what of it breaks clients."""
