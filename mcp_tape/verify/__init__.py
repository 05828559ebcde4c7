"""Verifying: the recorded client plays at a live server, and the recorder records what happens."""
