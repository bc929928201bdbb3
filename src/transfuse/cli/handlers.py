"""What each verb does: a function, imported when the verb is run, so that help and completion do without torch.

A new verb is a function in a file beside this, a case here, and a row of `verbs`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from .records import Outcome

Handler = Callable[[Namespace], Outcome]


def handler_of(verb: str) -> Handler:
    """The function that does what a verb says."""
    match verb:
        case "fuse" | "align" | "run":
            from .fusing import align, fuse, fuse_as_file_says

            return {"fuse": fuse, "align": align, "run": fuse_as_file_says}[verb]
        case "barrier" | "plane" | "report":
            from .measuring import barrier, plane, report

            return {"barrier": barrier, "plane": plane, "report": report}[verb]
        case "compare":
            from .comparing import compare

            return compare
        case "trace":
            from .tracing import trace

            return trace
        case "completion":
            from .completing import completion

            return completion
        case _:
            from .showing import demo, inspect, methods

            return {"demo": demo, "inspect": inspect, "methods": methods}[verb]
