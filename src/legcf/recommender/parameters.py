# SPDX-License-Identifier: Apache-2.0
"""Give and take the arguments of a constructor as scikit-learn's estimators do, without needing scikit-learn."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from legcf.core.config import RunConfig, merged
from legcf.core.errors import UserError, python_arguments

_SECTIONS = {"method_options": "method", "backbone_options": "backbone", "training": "training", "ranking": "ranking"}
"""Arguments that hold the keys of a section, and what the section is called in a configuration."""


class Parameters(ABC):
    """Hold the arguments of a constructor just as they were passed, which is what `sklearn.base.clone` checks."""

    _parameters: dict[str, Any]

    @abstractmethod
    def _configure(self, parameters: dict[str, Any]) -> None:
        """Keep these arguments and make the settings of them; what does not go together is refused."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments that make an equal recommender that is not fitted, by name.

        With `deep`, keys of a section are named as well, as in `training__epochs`.
        """
        own = dict(self._parameters)
        if deep:
            for name in _SECTIONS:
                own |= {f"{name}__{key}": value for key, value in (self._parameters[name] or {}).items()}
        return own

    @python_arguments
    def set_params(self, **parameters: Any) -> Self:
        """Change arguments of the constructor, which the next `fit` uses, and return the recommender itself.

        The key of a section goes by a name such as `training__epochs` or `method_options__c`.
        """
        changed = dict(self._parameters)
        for name, value in parameters.items():
            first, *keys = name.split("__")
            if first not in changed or (keys and first not in _SECTIONS):
                raise UserError(f"There is no parameter `{name}`: choose among {', '.join(self._parameters)}.")
            for key in reversed(keys):
                value = {key: value}
            changed[first] = merged(changed[first] or {}, value) if keys else value
        self._configure(changed)
        return self

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn, which alone asks, that there is nothing to predict beside the data."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def parameters_of(config: RunConfig) -> dict[str, Any]:
    """Return the arguments that give these settings again."""
    sections: Mapping[str, Any] = config.to_json()
    return {
        "method": config.method.name,
        "backbone": config.backbone.name,
        "preset": config.preset,
        "seed": config.seed,
        **{
            argument: {key: value for key, value in sections[section].items() if key != "name"}
            for argument, section in _SECTIONS.items()
        },
        "quiet": True,
        "seconds": None,
    }


def overrides_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the arguments set beyond the preset, by section of the configuration."""
    overrides = {section: parameters[argument] or {} for argument, section in _SECTIONS.items()}
    if parameters["seconds"] is not None:
        overrides["training"] = {**overrides["training"], "seconds": parameters["seconds"]}
    return overrides
