"""The command line: `transfuse VERB ...`, also `python -m transfuse`.

In: arguments, or a YAML file with the same options. Out: files, text or JSON, and an exit code: 0 done, 1 a check
failed or the work could not be finished, 2 the call cannot work as given. Help and completion do without torch: verbs
import what they need when they run.
"""

from .running import main

__all__ = ["main"]
