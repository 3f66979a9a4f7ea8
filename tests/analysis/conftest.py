"""Lets these tests import what they share, as importlib mode does not; reproducible examples."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "analysis",
    deadline=None,
    derandomize="FAGEN_RANDOM" not in os.environ,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.load_profile("analysis")
