"""Questions that people ask of a cassette: its rows, filters, words, SQL, figures and calls."""
