# SPDX-License-Identifier: Apache-2.0
"""Hold parts by name: those of this package, and those that other packages bring as entry points."""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from legcf.core.errors import UserError, training_packages_for

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = TypeVar("Part")


@dataclass(frozen=True)
class Later(Generic[Part]):
    """Stand for a part of this package until it is used: its imports take long, or are not installed everywhere."""

    imported: Callable[[], Part]


class Registry(MutableMapping[str, Part], Generic[Part]):
    """Map names to parts of one kind; parts of other packages come after those of this one.

    Entry points are read when a name is asked for that is none of this package's, or when the names are listed. The
    module of another package is imported when its part is used.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        accepts: Callable[[Any], bool],
        built_in: Mapping[str, Part | Later[Part]],
        of_studies: Collection[str] = (),
    ) -> None:
        """`kind` names the parts in messages, `group` is that of the entry points, `accepts` knows a part by sight.

        `of_studies` are names of the package `legcf-studies`, so that who lacks it hears what to install.
        """
        self.kind, self.group, self._accepts, self.of_studies = kind, group, accepts, of_studies
        self.built_in = tuple(built_in)
        self._parts: dict[str, Part | Later[Part]] = dict(built_in)
        self._waiting: dict[str, EntryPoint] | None = None  # of other packages, not yet imported; None: not yet read

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts and name not in self._others:
            raise KeyError(name)
        part = self._parts[name] if name in self._parts else self._imported(self._others[name])
        if isinstance(part, Later):
            with training_packages_for(f"The {self.kind} `{name}`"):
                part = part.imported()
        self._parts[name] = part
        return part

    def __setitem__(self, name: str, part: Part) -> None:
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts or name in self._others

    def __iter__(self) -> Iterator[str]:
        others = self._others
        yield from [name for name in self._parts if name not in others]
        yield from others

    def __len__(self) -> int:
        return len({*self._parts, *self._others})

    def check_installed(self, name: object) -> None:
        """Say what to install for a part of the package `legcf-studies`, if that is missing."""
        if name in self.of_studies and name not in self:
            raise UserError(
                f"The {self.kind} `{name}` is in another package: run `pip install legcf-studies` (in a checkout"
                " `pip install ./studies`) and try again."
            )

    @property
    def _others(self) -> "dict[str, EntryPoint]":
        if self._waiting is None:
            from importlib.metadata import entry_points

            found: dict[str, EntryPoint] = {}
            for entry in sorted(entry_points(group=self.group), key=lambda entry: entry.name):
                if entry.name in self.built_in or entry.name in found:
                    other = f"package {_package(found[entry.name])}" if entry.name in found else "legcf itself"
                    raise UserError(
                        f"Package {_package(entry)} brings a {self.kind} `{entry.name}`, and so does {other}:"
                        f" uninstall {_package(entry)}, or have its authors choose another name."
                    )
                found[entry.name] = entry
            self._waiting = found
        return self._waiting

    def _imported(self, entry: "EntryPoint") -> Part:
        what = f"The {self.kind} `{entry.name}` of package {_package(entry)} ({entry.value})"
        try:
            with training_packages_for(f"The {self.kind} `{entry.name}`"):
                part: Part = entry.load()
        except UserError:
            raise
        except Exception as error:  # whatever the import of another package may raise
            raise UserError(f"{what} cannot be imported: {type(error).__name__}: {error}") from error
        if not self._accepts(part):
            raise UserError(f"{what} is not a {self.kind}, but {type(part).__name__}: see CONTRIBUTING.md of legcf.")
        return part


def find_part(kind: str, name: str, parts: Mapping[str, Part]) -> Part:
    """Return the part of this name; a name that is none of them is a sentence with those that are."""
    if isinstance(parts, Registry):
        parts.check_installed(name)
    if not isinstance(name, str) or name not in parts:
        raise UserError(f"There is no {kind} `{name}`: choose one of {', '.join(sorted(parts))}.")
    return parts[name]


def _package(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist is not None else entry.module
