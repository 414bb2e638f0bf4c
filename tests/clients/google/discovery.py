"""Google's description of the API, which `google-api-python-client` ships: what requests and answers have to look like."""

import json
import os
import re

import googleapiclient

_FILE = os.path.join(os.path.dirname(googleapiclient.__file__), "discovery_cache/documents/drive.v3.json")
with open(_FILE, encoding="utf-8") as document:
    DOCUMENT = json.load(document)
_SCHEMAS = DOCUMENT["schemas"]


class Invalid(Exception):
    """Something is not as the description says."""


def method(name):
    """Returns a method by its id: `files.list`."""
    resource, _, verb = name.rpartition(".")
    return DOCUMENT["resources"][resource]["methods"][verb]


def check_parameters(name, given):
    """Raises `Invalid` for parameters that the method does not have, or whose values are of another type or out of range."""
    known = {**DOCUMENT["parameters"], **method(name)["parameters"]}
    for key, value in given.items():
        parameter = known.get(key)
        if parameter is None:
            raise Invalid(f"Unknown parameter {key}")
        if parameter["type"] == "boolean" and value not in ("true", "false"):
            raise Invalid(f"Invalid value for {key}")
        if parameter["type"] == "integer":
            low, high = int(parameter.get("minimum", 0)), int(parameter.get("maximum", 2**31))
            if not re.fullmatch(r"\d+", value) or not low <= int(value) <= high:
                raise Invalid(f"Invalid value '{value}'. Values must be within the range: [{low}, {high}]")


def check(schema, value, at="$"):
    """Raises `Invalid` for a value that is not of the schema."""
    if isinstance(schema, str):
        schema = _SCHEMAS[schema]
    if "$ref" in schema:
        return check(schema["$ref"], value, at)
    kind = schema.get("type")
    types = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}
    if kind in types and (not isinstance(value, types[kind]) or kind != "boolean" and isinstance(value, bool)):
        raise Invalid(f"{at}: expected {kind}, found {value!r}")
    if schema.get("format") == "int64" and not re.fullmatch(r"-?\d+", value):
        raise Invalid(f"{at}: expected an integer as a string, found {value!r}")
    if schema.get("format") == "date-time" and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
        raise Invalid(f"{at}: expected a time, found {value!r}")
    if kind == "array":
        for index, item in enumerate(value):
            check(schema["items"], item, f"{at}[{index}]")
    if kind == "object":
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, member in value.items():
            of_member = properties.get(key, others)
            if of_member is None:
                raise Invalid(f"{at}: unknown member {key}")
            check(of_member, member, f"{at}.{key}")


def select(schema, value, fields):
    """Returns the members of a value that a mask names: `nextPageToken,files(id,name),owners/me`, or `*`."""
    mask, rest = _mask(fields)
    if rest:
        raise Invalid(f"Invalid field selection {rest}")
    _check_mask(_SCHEMAS[schema], mask)
    return _select(value, mask)


def _check_mask(schema, mask):
    while "$ref" in schema or schema.get("type") == "array":
        schema = _SCHEMAS[schema["$ref"]] if "$ref" in schema else schema["items"]
    for name, below in mask.items():
        if name != "*" and name not in schema.get("properties", {}):
            raise Invalid(f"Invalid field selection {name}")
        if below is not None:
            _check_mask(schema["properties"][name], below)


def _mask(text):
    mask = {}
    while True:
        found = re.match(r"[A-Za-z]+|\*", text)
        if not found:
            raise Invalid(f"Invalid field selection {text}")
        name, text, below = found.group(), text[found.end() :], None
        if text.startswith("/"):
            found = re.match(r"/([A-Za-z]+|\*)", text)
            if not found:
                raise Invalid(f"Invalid field selection {text}")
            below, text = {found.group(1): None}, text[found.end() :]
        elif text.startswith("("):
            below, text = _mask(text[1:])
            if not text.startswith(")"):
                raise Invalid(f"Invalid field selection {name}")
            text = text[1:]
        mask[name] = below
        if not text.startswith(","):
            return mask, text
        text = text[1:]


def _select(value, mask):
    if isinstance(value, list):
        return [_select(item, mask) for item in value]
    selected = {}
    for key, member in value.items():
        if key in mask or "*" in mask:
            below = mask.get(key)
            selected[key] = member if below is None else _select(member, below)
    return selected
