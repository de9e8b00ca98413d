"""The table of operators: rules build nodes by name, `op.nabla(f)`, so no operator has to import another."""

from collections.abc import Callable

from dftfd.errors import UnknownOperatorError, closest_names


class Operators:
    """What is registered, as attributes."""

    def register(self, build: Callable, name: str | None = None) -> Callable:
        """Enter what builds a node (or a small graph) under its name; a decorator."""
        vars(self)[name or build.__name__] = build
        return build

    def __getattr__(self, name):  # asked only where there is no such attribute
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnknownOperatorError(
            f"no operator is called {name!r}; closest: {', '.join(closest_names(name, list(vars(self))))}. Operators "
            "enter the table where they are defined, with @op.register."
        )


op = Operators()
