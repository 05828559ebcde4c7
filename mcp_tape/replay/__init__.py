"""Replaying: what plays, which recorded request answers a live one, and what is sent."""
