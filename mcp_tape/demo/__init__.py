"""A small server and a small client, so that there is something to record anywhere."""
