"""Which experiments there are: ours, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from millrace.errors import OperationFailed, nearest
from millrace.experiment.declaration import Declaration
from millrace.experiment.file import read_declaration
from millrace.experiment.port import Experiment

#: Packages name their experiments in this group of entry points: `NAME = module:EXPERIMENT`.
GROUP: Final = "millrace.experiments"
_OURS: Final = {
    "speck-figure-6": "millrace.experiment.speck.figure6",
    "fog-cloud": "millrace.experiment.speck.fog",
}
_FILES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Registry:
    """Experiments by name, each with what loads it."""

    offers: Mapping[str, Callable[[], Experiment]] = field(default_factory=dict)

    @classmethod
    def installed(cls) -> Registry:
        """Return ours and those of the packages beside Millrace; none is loaded yet."""
        found: dict[str, Callable[[], Experiment]] = {}
        for name, module in _OURS.items():
            found[name] = _loader(module)
        for point in entry_points(group=GROUP):
            if point.name not in found:  # a stranger does not take the place of ours
                found[point.name] = point.load
        return cls(found)

    def names(self) -> list[str]:
        """Return the names, in order."""
        return sorted(self.offers)

    def load(self, name: str) -> Experiment:
        """Return an experiment; raises, with the near name, where there is none."""
        if name not in self.offers:
            near = nearest(name, self.offers)
            raise OperationFailed(
                "no-experiment",
                f"there is no experiment {name!r}",
                f"did you mean {near}?" if near else f"known are {', '.join(self.names())}",
            )
        try:
            return self.offers[name]()
        except (ImportError, AttributeError) as error:
            raise OperationFailed(
                "plugin-broken",
                f"the experiment {name} can't be loaded: {error}",
                "install what it needs: pip install 'millrace[spark,kafka,measure]'",
            ) from error

    def found(self, name: str) -> tuple[Experiment, Declaration]:
        """Return an experiment by its name, or by a file that declares one `of` a known kind."""
        if name in self.offers or not name.endswith(_FILES):
            experiment = self.load(name)
            return experiment, experiment.declared
        declared = read_declaration(Path(name))
        return self.load(declared.of), declared


def _loader(module: str) -> Callable[[], Experiment]:
    def load() -> Experiment:
        found: Experiment = import_module(module).EXPERIMENT
        return found

    return load
