"""URLs as they may be shown: without passwords, keys and tokens, and yet telling one file from another."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from replay.storage.layout import digest

_NEXT_IN_CHAIN = re.compile(r"::(?=[a-z][a-z0-9+.-]*://)", re.IGNORECASE)
_HERE = frozenset({"file", "local"})
WEB = frozenset({"http", "https"})
# In github://organisation:repository@revision/path the part before the @ is where the file lies.
_WITHOUT_PASSWORDS = frozenset({"github"})

# The part before an @: up to the last one before the path, or, where what follows the colon is no port, to the first.
_USER = re.compile(r"(?P<user>[^/:@]*)(?P<password>:[^/]*)?@(?=[^/@]*(?:/|$))|(?P<odd>[^/:@]*):(?!\d*(?:/|$)).*?@")
# A name that merely contains such a word, as n_tokens, sigma and author do, is no secret, and tells files apart.
_SECRET_WORD = "|".join(
    [
        r"passw|secret|cred(?!it)",
        r"token(?!s(?![a-z])|i[sz])",
        r"key(?!s(?![a-z])|word|board|frame)",
        r"(?<!de)sig(?!ma|mo|nal)",
        r"auth(?!ors?(?![a-z]))",
    ]
)
_SECRET_VALUE = re.compile(rf"(?P<name>[?&][^=&\s]*(?:{_SECRET_WORD})[^=&\s]*)=[^&\s]*", re.IGNORECASE)
_HIDDEN_VALUE = r"\g<name>=***"
# Signed for a while: the next URL of the same file has another query, which says only who may read it.
_SIGNED = re.compile(r"(?:^|&)(?:x-amz-signature|x-goog-signature|signature|sig)=", re.IGNORECASE)

_ANY_USER = re.compile(r"(?<=://)[^/\s@]*@")
_ANY_WEB_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\")]*")


def whole_url(given: str | Path) -> str:
    """``given`` as a URL; to one that was taken for a path the slashes that were lost are given back.

    >>> whole_url(Path("s3://bucket/logs"))
    's3://bucket/logs'
    """
    if not isinstance(given, Path):
        return given
    scheme, _, rest = str(given).partition(":/")
    return f"{scheme}:{'///' if scheme.lower() in _HERE else '//'}{rest}"


def path_of_file_url(url: str) -> Path | None:
    """The path that a file:// URL stands for, None for URLs of other machines."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in _HERE:
        return None
    path = Path(rest)
    return path if path.exists() else Path(unquote(rest))


def storable(text: str) -> str:
    """``text`` with what can be no part of a file's name as escapes."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def shown(url: str) -> str:
    """``url`` without what gives access.  It is what a file is called in the ledger.

    The query of a web address, which may be a key, is told by a digest.

    >>> shown("ftp://user:word@host/logs/a.log"), shown("https://key@host/a.log?X-Amz-Signature=f00")
    ('ftp://user@host/logs/a.log', 'https://host/a.log')
    """
    return "::".join(_shown(part) for part in _NEXT_IN_CHAIN.split(url))


def _shown(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    web = scheme.lower() in WEB
    before = _USER.match(rest)
    if before is not None and scheme.lower() not in _WITHOUT_PASSWORDS:
        user = "" if web else before["user"] or before["odd"] or ""
        rest = (user and f"{user}@") + rest[before.end() :]
    if web:
        rest, _, query = rest.partition("#")[0].partition("?")
        if query and not _SIGNED.search(query):
            rest += f"?{digest(query)}"
    return f"{scheme}://" + _SECRET_VALUE.sub(_HIDDEN_VALUE, rest)


def scrubbed(text: str, url: str) -> str:
    """``text``, which somebody else wrote about ``url``, on one line and without what gives access."""
    text = " ".join(text.split())
    for secret in sorted(_secrets(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _SECRET_VALUE.sub(_HIDDEN_VALUE, _ANY_WEB_QUERY.sub(r"\1", _ANY_USER.sub("", text)))


def _secrets(url: str) -> set[str]:
    """The password and the query in ``url``, as written and as meant."""
    found: set[str] = set()
    for part in _NEXT_IN_CHAIN.split(url):
        scheme, _, rest = part.partition("://")
        before = _USER.match(rest)
        if before is not None and scheme.lower() not in _WITHOUT_PASSWORDS:
            whole = before[0][:-1]
            found |= {whole, whole.partition(":")[2]}
            if scheme.lower() in WEB:
                found.add(whole.partition(":")[0])
        if scheme.lower() in WEB:
            found.add(rest.partition("?")[2])
    return {form for one in found for form in (one, unquote(one)) if form}
