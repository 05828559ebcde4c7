"""Values that a server makes up anew each time."""
