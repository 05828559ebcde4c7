"""Who can reach an address. Nothing heavy is imported here: command lines are checked with it."""

from __future__ import annotations


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    from ipaddress import ip_address

    return host.lower() == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    """Whether it is an address and not a name, which may be made to point elsewhere."""
    from ipaddress import ip_address

    try:
        ip_address(name)
    except ValueError:
        return False
    return True
