"""Tracing: from a module to its layout, with a proof."""

from .algebra import Algebra
from .labels import Labels
from .rules import RULES, Call, Rule, rule
from .tracer import prove, trace

__all__ = ["RULES", "Algebra", "Call", "Labels", "Rule", "prove", "rule", "trace"]
