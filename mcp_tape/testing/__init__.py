"""Cassettes in tests: `use_cassette` and what the pytest plugin does."""
