"""Pipes: stand in the middle, be the server, be the client."""
