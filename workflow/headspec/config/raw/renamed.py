"""Renamed keys and values of a config: old names are read, with a warning, until the next release.

To rename one, add a line to `KEYS` or `VALUES`, and remove it after the next release.
"""

from typing import Any

#: old dotted key: new name in the same section
KEYS = {
    "gates.ways": "pruning_methods",
    "gates.sets": "scope",
    "similarity.probe": "sentences",
    "similarity.probe_sentences": "max_sentences",
}
#: dotted key, by its new name: {old value: new value}, for single values and in lists
VALUES: dict[str, dict[str, str]] = {"gates.scope": {"own": "per_task"}}


def renewed(config: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return a raw config with new names, a warning for each old one, and a problem where both are given."""
    config, warnings, problems = dict(config), list[str](), list[str]()
    for dotted, new in KEYS.items():
        section, _, old = dotted.partition(".")
        keys = config.get(section)
        if not isinstance(keys, dict) or old not in keys:
            continue
        if new in keys:
            problems.append(
                f"{dotted}: got both this and {section}.{new}, its new name; expected the new one."
            )
        else:
            warnings.append(_warning(dotted, f"'{section}.{new}'"))
            keys = {new if key == old else key: value for key, value in keys.items()}
        config[section] = {key: value for key, value in keys.items() if key != old}
    for dotted, names in VALUES.items():
        section, _, key = dotted.partition(".")
        keys = config.get(section)
        if not isinstance(keys, dict):
            continue
        value = keys.get(key)
        values = value if isinstance(value, list) else [value]
        found = [each for each in values if isinstance(each, str) and each in names]
        if found:
            warnings += [_warning(f"{dotted}: '{each}'", f"'{names[each]}'") for each in found]
            new_values = [names[each] if each in found else each for each in values]
            config[section] = keys | {key: new_values if isinstance(value, list) else new_values[0]}
    return config, warnings, problems


def _warning(old: str, new: str) -> str:
    return f"{old} is now {new}; the old name will be refused by the next version"
