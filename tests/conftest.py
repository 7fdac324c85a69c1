"""What every test has: no network (the options in pyproject.toml), and the same examples each run.

To search further: `make fuzz`, or `HYPOTHESIS_PROFILE=fuzz pytest -m fuzz`.
"""

import os

from hypothesis import settings

# Derandomised, so that a change is judged by its own faults and not by the luck of a run.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("fuzz", deadline=None, max_examples=10_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
