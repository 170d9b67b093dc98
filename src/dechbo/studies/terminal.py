"""The terminal: a console that shows every text as it is. Tested in test_terminal.py and test_commands.py.

Names, values and errors are a user's own. Rich would read ``[min]`` in them as markup and ``:x:`` as an emoji, and a
terminal would obey an escape code.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LOG_WIDTH = 120  # columns where there is no terminal

# tabs and new lines stay; others become visible: ␛ for an escape
_VISIBLE = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {0x7F: 0x2421}
_VISIBLE |= dict.fromkeys(range(128, 160), 65533)


def text_console() -> Console:
    """The console of every command; a log has a fixed width and no control codes."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(
        width=None if terminal else LOG_WIDTH,
        force_terminal=None if terminal else False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def printable(text: str) -> str:
    """The text with its control characters made visible."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_VISIBLE)


def plain(text: str, style: str = "") -> Text:
    """A cell of a table; an ellipsis says where it is cut."""
    from rich.text import Text

    return Text(printable(text), style=style, overflow="ellipsis")


def print_text(console: Console, text: str, style: str | None = None) -> None:
    """Print the text as it is and unwrapped: people copy paths and commands from it."""
    console.print(printable(text), style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)
