"""Times as text: RFC 3339, also without a zone. Python's own parser accepts other forms in each version.

https://www.rfc-editor.org/rfc/rfc3339#section-5.6
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?"
_ZONE = r"[Zz]|([+-])(\d\d):?(\d\d)"
_TIME = re.compile(f"{_DATE}(?:[Tt ]{_CLOCK}(?:{_ZONE})?)?", re.ASCII)


def read_time(text: str | None) -> datetime | None:
    """The time in a text, in UTC if it has no zone; None if it is not a time."""
    found = _TIME.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups(default="0")
    offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        zone = timezone(offset)
        date = int(year), int(month), int(day)
        return datetime(*date, int(hour), int(minute), int(second), int(f"{fraction:0<6}"[:6]), zone)
    except (ValueError, OverflowError):
        return None
