"""Lets these tests import what they share (`formulas`, `standin`), as importlib mode does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
