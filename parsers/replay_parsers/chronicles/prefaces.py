"""What stands beside a deed and takes nothing from it: "after some debate", "don't forget:", "; done"."""

from __future__ import annotations

import re

_I = re.IGNORECASE

# Talk that is over: what follows is told by its own verb.
_AFTER_TALK = re.compile(
    r"^\W*as (?:had been |was |we had )?(?:suggested|proposed|recommended|advised|discussed|planned|considered)\b"
    r"[^,;:]{0,60}?(?:,\s|\s(?=(?:we|i|they|he|she)\s))"
    r"|^\W*(?:after|following|having had|once done with|upon)\s(?:(?!we\b|i\b|they\b)[\w-]+\s){0,4}?"
    r"(?:debat\w+|discuss\w+|consider\w+|weighing|thinking|thought|talk\w*|deliberat\w+|argu\w+|looking into|"
    r"pondering|hesitation|reflection|advice|suggestions?|proposals?)\b"
    r"(?:\s(?=\w{3,}ed\s)|[^,;:]{0,80}?(?:,\s|\s(?=(?:we|i|they|he|she)\s))|(?:(?!\b\w{3,}ed\b)[^,;:])*$)",
    _I,
)
_HEAD = re.compile(r"^(?P<head>[^:：]{2,80})(?::\s|：)\s*(?=\S)")
# "The proposal was accepted: ...", "to do from Monday, done: ..."
_SETTLED = re.compile(
    r"(?<!not )(?<!n't )\b(?:done|accepted|adopted|approved|carried out|implemented|followed|resolved)\W*$|"
    r"(?<![未不])(?:采纳|完成|执行|落实|通过)了?$|"
    r"^\W*希望[^，,]{0,12}(?:解决|稳定|恢复|好转|有效|有用|奏效|缓解)[^，,]{0,6}$",
    _I,
)
_UNSETTLED = re.compile(
    r"\b(?:not|never) \w+\W*$|\b(?:rejected|declined|dismissed|cancell?ed|postponed|deferred|skipped|considered|"
    r"suggested|proposed|planned|discussed|options?|ideas?|plans?|alternatives?|would be|could be|if)\b",
    _I,
)
# "We did", "done", "and so they did": what the clause before it only planned was carried out.
_CONFIRMS = re.compile(
    r"^\W*(?:(?:and|so|which|yes|then|this|that|all|it)\W+){0,3}(?:(?:we|i|they|he|she) (?:then )?(?:did|have)"
    r"(?: (?:so|that|it|this|exactly that|just that))?|(?:is |was |now |has been )?done(?: (?:now|today|"
    r"so|that|it|this morning))?|did (?:so|that|it))\W*$|^\W*(?:已经?)?(?:照做|采纳|执行|完成|做)了?\W*$",
    _I,
)
# "Never seen again after lowering the rate": the deed that a refusal is told of.
_AFTER_DEED = re.compile(r"(?<!until )\b(?:after|since|following|thanks to)\s(?=(?:\w+ly\s)?\w{3,}ing\b)", _I)
_NO_REPORT = re.compile(
    r"\b(?:do|does|ca|can|could|would|should|must|might|may|will|wo)(?:n['’]?t| not)\b|\bcannot\b|"
    r"\b(?:plan|advis|suggest|decid|argu)\w*\b|\bneed(?:s|ed)?\b|\b(?:would|could|should|must|if)\b",
    _I,
)


# "We went ahead with plan B, where we would start over": what the plan would do was done.
_FOLLOWED = re.compile(
    r"\b(?:(?:decided|chose|agreed) to (?:follow through|go ahead|go through|proceed)|followed through|went ahead|"
    r"went through) with\b.{0,200}?\b(?:where|in which|by which|under which) we would\b",
    _I,
)
_OF_THE_PLAN = re.compile(r"^(?P<head>\W*(?:where|in which|by which|under which) we )would ", _I)


def follows_plan(sentence: str) -> bool:
    """Whether a sentence says that a plan was followed and then what the plan "would" do."""
    return _FOLLOWED.search(sentence) is not None


def of_plan(clause: str) -> str:
    """What a plan that was followed would do, as a deed."""
    return _OF_THE_PLAN.sub(r"\g<head>", clause)


def without_talk(clause: str) -> str:
    """``clause`` without the talk that went before what it tells.

    >>> without_talk("After some debate we went back to 700")
    'we went back to 700'
    """
    return _AFTER_TALK.sub("", clause)


def behind_colon(clause: str, deed: re.Pattern[str]) -> str | None:
    """What stands behind a colon where it is told by a verb of its own (``deed``) or what stands before it says that
    it was settled; None where the whole clause is to be judged at once.

    >>> behind_colon("Should hold now: restarted from 700", re.compile("restarted"))
    'restarted from 700'
    """
    parts = _HEAD.match(clause)
    if parts is None:
        return None
    head, behind = parts["head"], clause[parts.end() :]
    if _SETTLED.search(head):
        return behind
    # "Set", "put" and "cut" may be what is advised.
    told = deed.match(behind) and not re.match(r"\W*(?:set|put|cut)\b", behind, _I) and not _UNSETTLED.search(head)
    return behind if told else None


def confirms(clause: str) -> bool:
    """Whether a clause only says that what was spoken of before it was done."""
    return _CONFIRMS.match(clause) is not None


def deed_behind(clause: str, refused: int) -> str:
    """The deed after which something was not seen any more, of a clause refused from ``refused`` on; or nothing.

    >>> deed_behind("no spike was seen after lowering LR to 1e-4", 0)
    'lowering LR to 1e-4'
    """
    after = _AFTER_DEED.search(clause, refused)
    return "" if after is None or _NO_REPORT.search(clause) else clause[after.end() :]
