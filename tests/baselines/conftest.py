"""tests/space_strategies.py and this folder's helpers are found also where it is run on its own."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
