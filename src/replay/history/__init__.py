"""The incident history: what runs on record went through, checked, compared and counted.

``audit/``
    a logbook checked against itself, and sources of one run against each other.
:mod:`~replay.history.precedents` (with :mod:`~replay.history.similarity`)
    who has seen this before, what they did, and what came of it.
:mod:`~replay.history.follow_up`
    whether what was done helped, and for how long, incident by incident.
:mod:`~replay.history.reliability`, :mod:`~replay.history.lost_work`, :mod:`~replay.history.effectiveness`
    restarts and failures, what they cost, and what was done about what, as DataFrames;
    :mod:`~replay.history.statistics_page` shows runs side by side.

Everything here reads files or the store's public queries, and writes nothing.
"""
