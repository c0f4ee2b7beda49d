"""The words by which logbooks tell symptoms, causes, actions and outcomes, in English and Chinese.

Four tables of :class:`~replay_parsers.chronicles.words.term.Term`, one a role.  A word is added by adding an
alternative to the term of its kind, together with a sentence in ``tests/parsers/chronicles/test_words.py``.
"""

from replay_parsers.chronicles.words.actions import ACTIONS
from replay_parsers.chronicles.words.causes import CAUSES
from replay_parsers.chronicles.words.outcomes import OUTCOMES
from replay_parsers.chronicles.words.symptoms import SYMPTOMS
from replay_parsers.chronicles.words.term import Term

__all__ = ["ACTIONS", "CAUSES", "OUTCOMES", "SYMPTOMS", "Term"]
