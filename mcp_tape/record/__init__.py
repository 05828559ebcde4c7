"""Recording: the core that frames, the relay's end, and the process that writes."""
