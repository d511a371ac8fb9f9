"""`python -m headwater.cli`: the same as the `headwater` script."""

import sys

from headwater.cli import main

sys.exit(main())
