"""Path templates: matching and expanding RFC 6570 templates."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ._paths import decode, encode_query, encode_segment, split_query

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")


class PathTemplate:
    """A template that can be matched and expanded.

    `{var}` matches at least one character, all in one segment; `{+var}` any number of segments; `{?a,b}` a query with any
    of these variables, each at most once, in any order, or none. Values are percent-decoded. The other operators of
    RFC 6570 are errors.

        >>> log = PathTemplate("log/{rev}{?path,limit}")
        >>> log.match("log/feature%2Fx?limit=3")
        {'rev': 'feature/x', 'limit': '3'}
        >>> log.expand(rev="feature/x", limit="3")
        'log/feature%2Fx?limit=3'
    """

    def __init__(self, template: str) -> None:
        self.text = template
        self._segments: list[str] = []
        self._rests: list[str] = []
        self._query: list[str] = []
        pattern, end = "", 0
        for expression in _EXPRESSION.finditer(template):
            pattern += re.escape(self._literal(template[end : expression.start()]))
            end = expression.end()
            pattern += self._variable(expression.group(1))
        pattern += re.escape(self._literal(template[end:]))
        self._pattern = re.compile(pattern, re.DOTALL)

    @property
    def variables(self) -> list[str]:
        """The names of the variables: first of the path, then of the query."""
        in_path = [name for name in re.findall(r"\{\+?(\w+)\}", self.text)]
        return in_path + self._query

    @property
    def query_variables(self) -> list[str]:
        """The names of the variables of the query."""
        return list(self._query)

    def match(self, path: str) -> dict[str, str] | None:
        """Matches a path and returns the values of its variables; none if it does not match."""
        path, query = split_query(path)
        found = self._pattern.fullmatch(path)
        if found is None:
            return None
        values: dict[str, str] = {}
        for name, encoded in found.groupdict().items():
            value = decode(encoded)
            # No file name contains a slash, so an encoded one is not part of a path of several.
            if value is None or (name in self._rests and value.count("/") != encoded.count("/")):
                return None
            values[name] = value
        for pair in query.split("&") if query else []:
            name, _, encoded = pair.partition("=")
            value = decode(encoded)
            if name not in self._query or name in values or value is None:
                return None
            values[name] = value
        return values

    def expand(self, values: Mapping[str, str] | None = None, /, **more: str) -> str:
        """Expands the template to a path, in the host's normal form. Values are not percent-encoded. A missing variable of the path is
        a `KeyError`."""
        given = {**(values or {}), **more}

        def expand(expression: re.Match[str]) -> str:
            content = expression.group(1)
            if content.startswith("?"):
                pairs = [f"{name}={encode_query(given[name])}" for name in self._query if name in given]
                return "?" + "&".join(pairs) if pairs else ""
            if content.startswith("+"):
                return "/".join(map(encode_segment, given[content[1:]].split("/")))
            return encode_segment(given[content])

        return _EXPRESSION.sub(expand, self.text)

    def _literal(self, text: str) -> str:
        if self._query and text:
            raise ValueError(f"the template {self.text!r} has something behind its query")
        if "{" in text or "}" in text or "?" in text:
            raise ValueError(f"the template {self.text!r} is malformed at {text!r}")
        return text

    def _variable(self, content: str) -> str:
        if self._query:
            raise ValueError(f"the template {self.text!r} has something behind its query")
        operator = content[:1] if content[:1] in "+?" else ""
        names = content[len(operator) :].split(",")
        known = [*self._segments, *self._rests]
        for name in names:
            if not _NAME.match(name) or name in known or (len(names) > 1 and operator != "?"):
                raise ValueError(
                    f"the template {self.text!r} has {{{content}}}; supported are {{var}}, {{+var}} and {{?a,b}}, each "
                    "variable once"
                )
        if operator == "?":
            self._query = names
            return ""
        if operator == "+":
            self._rests += names
            return f"(?P<{names[0]}>.*)"
        self._segments += names
        return f"(?P<{names[0]}>[^/]+)"
