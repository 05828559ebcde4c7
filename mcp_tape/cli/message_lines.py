"""A row of a session as one line of a terminal."""

from __future__ import annotations

from ..console.terminal import display_width, echo_one_of_many, fit, pad, writable_text
from ..errors import replace_control_characters
from ..formats.row_lines import Line

_WHAT, _ID = 34, 8  # columns
_NARROW = 160


def is_narrow(width: int) -> bool:
    """Return whether a line has little room for its content."""
    return width <= _NARROW


def text_of(line: Line, width: int) -> str:
    """Lay out a line in columns: number, seconds, direction, id, method and name, bytes, content."""
    row = line.row
    arrow = "→" if row.sender == "client" else "←"
    number = fit(f"#{row.rpc_id}", _ID if is_narrow(width) else 80) if row.rpc_id and row.is_message else ""
    size = "" if row.frame_kind == "control" else row.size
    left = f"{row.seq:>5} {row.at / 1e6:>9.3f} {'!' if line.odd else ' '}{arrow} {pad(number, 4)} "
    what = (
        replace_control_characters(line.what)
        if not is_narrow(width)
        else fit(line.what, max(_WHAT, width - display_width(left) - 36))
    )
    return fit(f"{left}{pad(what, _WHAT)} {size:>7}  {line.detail[: 2 * width]}".rstrip(), width)


def echo_line(line: Line, width: int, *, bold: bool = False) -> None:
    """Print a line in its colour."""
    colour = "red" if line.odd else None
    echo_one_of_many(writable_text(text_of(line, width)), fg=colour, dim=line.dim or None, bold=bold or None)
