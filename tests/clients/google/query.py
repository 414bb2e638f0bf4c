"""A part of Drive's query language: https://developers.google.com/workspace/drive/api/guides/ref-search-terms

Terms: name, fullText, mimeType, modifiedTime, trashed, starred, parents. Operators: contains, =, !=, <, <=, >, >=, in, and, or,
not, parentheses.
"""

import re

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>[A-Za-z][A-Za-z.]*)|(?P<op><=|>=|!=|=|<|>)|(?P<paren>[()]))"
)


class Invalid(Exception):
    """The query cannot be parsed."""


def parse(q):
    """Returns a function of a file that says whether it matches."""
    tokens, position = [], 0
    while q[position:].strip():
        found = _TOKEN.match(q, position)
        if not found:
            raise Invalid(q)
        tokens.append((found.lastgroup, found.group(found.lastgroup)))
        position = found.end()
    parser = _Parser(tokens)
    condition = parser.either()
    if parser.tokens:
        raise Invalid(q)
    return condition


def has_full_text(q):
    """Whether results are ordered by relevance."""
    return bool(q) and re.search(r"\bfullText\b", re.sub(r"'(?:[^'\\]|\\.)*'", "", q)) is not None


class _Parser:
    def __init__(self, tokens):
        self.tokens = tokens

    def take(self, kind, *values):
        if not self.tokens or self.tokens[0][0] != kind or (values and self.tokens[0][1] not in values):
            raise Invalid("expected " + kind)
        return self.tokens.pop(0)[1]

    def is_next(self, *values):
        return bool(self.tokens) and self.tokens[0][0] != "text" and self.tokens[0][1] in values

    def either(self):
        conditions = [self.both()]
        while self.is_next("or"):
            self.take("word")
            conditions.append(self.both())
        return lambda file: any(condition(file) for condition in conditions)

    def both(self):
        conditions = [self.one()]
        while self.is_next("and"):
            self.take("word")
            conditions.append(self.one())
        return lambda file: all(condition(file) for condition in conditions)

    def one(self):
        if self.is_next("not"):
            self.take("word")
            condition = self.one()
            return lambda file: not condition(file)
        if self.is_next("("):
            self.take("paren")
            condition = self.either()
            self.take("paren", ")")
            return condition
        if self.tokens and self.tokens[0][0] == "text":
            value = _unquote(self.take("text"))
            self.take("word", "in")
            self.take("word", "parents")
            return lambda file: value in file.parents
        return self.comparison()

    def comparison(self):
        term = self.take("word", "name", "fullText", "mimeType", "modifiedTime", "trashed", "starred")
        if term in ("trashed", "starred"):
            is_equal = self.take("op", "=", "!=") == "="
            wanted = self.take("word", "true", "false") == "true"
            return lambda file: (getattr(file, term) == wanted) == is_equal
        operator = self.tokens.pop(0)[1] if self.tokens else ""
        value = _unquote(self.take("text"))
        allowed = {
            "name": {"contains", "=", "!="},
            "fullText": {"contains"},
            "mimeType": {"contains", "=", "!="},
            "modifiedTime": {"<", "<=", "=", "!=", ">", ">="},
        }
        if operator not in allowed[term]:
            raise Invalid(f"{term} {operator}")
        if term == "fullText":
            return lambda file: _has_words(file.full_text(), value)
        if operator == "contains" and term == "name":
            # Drive compares the beginnings of words only.
            words = _words(value)
            return lambda file: all(any(word.startswith(v) for word in _words(file.name)) for v in words)
        field = {"name": "name", "mimeType": "mime_type", "modifiedTime": "modified_time"}[term]
        compare = {
            "contains": lambda a: value in a,
            "=": lambda a: a == value,
            "!=": lambda a: a != value,
            "<": lambda a: a < value,
            "<=": lambda a: a <= value,
            ">": lambda a: a > value,
            ">=": lambda a: a >= value,
        }[operator]
        return lambda file: compare(getattr(file, field))


def _unquote(text):
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _words(text):
    return re.findall(r"\w+", text.lower())


def _has_words(text, wanted):
    if len(wanted) > 1 and wanted[0] == wanted[-1] == '"':
        return wanted[1:-1].lower() in text.lower()
    words = set(_words(text))
    return all(word in words for word in _words(wanted))
