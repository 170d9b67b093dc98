"""tests/space_strategies.py is found also where this folder is run on its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
