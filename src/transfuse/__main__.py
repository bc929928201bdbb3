"""`python -m transfuse` is the command `transfuse`."""

import sys

from .cli import main

sys.exit(main())
