"""What every test has: no network (the options in pyproject.toml), and the same examples each run.

To search further: `pytest -m fuzz --hypothesis-profile=explore`.
"""

import os

from hypothesis import settings

# Derandomised, so that a change is judged by its own faults and not by the luck of a run.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
