"""Where this runs: in a component, or natively, as in unit tests."""

from importlib.util import find_spec

IN_COMPONENT = find_spec("componentize_py_types") is not None
"""Whether the toolchain's module is there, which only components have."""
