"""One page about one fusion: what came of it, the way between the models, the plane, couplings, how to do it again.

In: a fusion and `evaluate`. Out: a single HTML file, and a picture beside it that previews of links show.
`Fusion.report` is the way in.
"""

from .contents import Report, Request
from .first_lines import Opening
from .gathering import gather
from .rendering import page, render
from .tables import Table, best_cells
from .travel import journeys, motion
from .writing import card_address, card_beside, write_card, write_page, write_report

__all__ = [
    "Opening",
    "Report",
    "Request",
    "Table",
    "best_cells",
    "card_address",
    "card_beside",
    "gather",
    "journeys",
    "motion",
    "page",
    "render",
    "write_card",
    "write_page",
    "write_report",
]
