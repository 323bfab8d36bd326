"""``python -m rillet.cli``."""

import sys

from rillet.cli import main

sys.exit(main())
