"""Rules about what two versions of a server offer and do."""
