"""How well the raw chronicles are read: what the parsers find, against what the curated timelines say.

Recall is the share of the curated facts that the parser found, precision the share of the parser's facts that are
curated.  Facts are paired one to one, under the same heading.  A limit holds for four categories
of facts together; how each does by itself is told, too:

``incident``
    Key: the heading, a main kind in common, and no contradiction.  The main kinds of an incident are its symptoms and
    causes; where none are told its interventions, else its lifecycle events, else its outcomes; an unknown cause is
    none.  Outcomes contradict each other when one is good (recovered, recovered by itself, completed) and the other
    bad (recurred, delayed, worsened, unaffected) or abandoned.  A stricter key, by which at least half of the main
    kinds of either side must be told by the other, is shown beside it and decides nothing.
``restart``
    Events of the kinds ``restart``, ``rollback`` and ``restart_from_scratch``.  Key: heading, kind, step.
``skip``
    Key: heading, first and last step left out (or their number).
``parameter``
    Interventions that carry a ``field``.  Key: heading, kind, field, values before and after, factor.

All other events are counted in a second table without a limit, by heading and kind: ``symptom``, ``cause``,
``outcome``, and ``other`` interventions and lifecycle events.

Tolerance: numbers agree within one part in a thousand; a step marked approximate within 100 steps.  What one side
leaves open contradicts nothing in a value *before* (``before``), since a timeline may know it from elsewhere;
steps, values after and factors must agree.

Only the curated facts whose source is the file itself are asked for: a parser cannot know what a paper adds.
What the timeline tells from another source alone is left out on both sides.

The parsers were written with these books in view.  The figures say how well these are read, and little of others.
"""

from replay.chronicle_evaluation.books import BOOKS, Book
from replay.chronicle_evaluation.comparison import Comparison, compare, differences, evaluate
from replay.chronicle_evaluation.facts import CATEGORIES, STORY, Fact, facts
from replay.chronicle_evaluation.report import main, report
from replay.chronicle_evaluation.tables import overall, standing, story_table, strict_incidents, table

__all__ = [
    "BOOKS",
    "CATEGORIES",
    "STORY",
    "Book",
    "Comparison",
    "Fact",
    "compare",
    "differences",
    "evaluate",
    "facts",
    "main",
    "overall",
    "report",
    "standing",
    "story_table",
    "strict_incidents",
    "table",
]
