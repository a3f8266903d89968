"""Base class of sections, and types of values with their checks."""

from collections.abc import Callable, Iterable, Mapping
from encodings.aliases import aliases
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from headspec.errors import nearest
from headspec.text_values import as_text, named

PLUGGED = "plugged"
KNOWN = "known names"


class Section(BaseModel):
    """A section of the config, or the keys of one that a stage reads."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)

    @classmethod
    def from_params(cls, values: Mapping[str, Any]) -> Self:
        """Return a section of the keys that a rule passes; reading another key raises AttributeError.

        Raises ValidationError for an unknown key or an invalid value; `OneOf` takes any name.
        """
        section = cls.model_validate(values, context=KNOWN)
        for key in cls.model_fields.keys() - values.keys():
            del section.__dict__[key]
        return section


class OneOf:
    """Annotation of a text that must be a listed name.

    `listed` has the names, or is a function that returns them. If `plugged`, plugins add names, and the JSON
    schema has the mark `PLUGGED`. `refused` maps names of other lists to why this one lacks them.
    """

    def __init__(
        self,
        listed: Iterable[str] | Callable[[], Iterable[str]],
        plugged: bool = False,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.listed, self.plugged, self.refused = listed, plugged, refused or {}

    @property
    def names(self) -> list[str]:
        """The names, including those of loaded plugins."""
        return list(self.listed() if callable(self.listed) else self.listed)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"enum": self.names, "type": "string", **({PLUGGED: True} if self.plugged else {})}

    def _known(self, value: str, info: ValidationInfo) -> str:
        if value in self.refused:
            raise ValueError(f"got '{value}', {self.refused[value]}")
        if info.context != KNOWN and value not in self.names:
            raise PydanticCustomError("name", "expected a known name")
        return value


def _number(value: Any) -> Any:
    """Return a number, also from text, as YAML reads 2e-5; refuse booleans, which pydantic takes as 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "expected a number")
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _distinct(values: list[Any]) -> list[Any]:
    for i, value in enumerate(values):
        if value in values[:i]:
            raise ValueError(f"{value!r} is listed twice, expected each entry once")
    return values


def _in_paths(value: float) -> float:
    if float(named(value)) != value:
        raise ValueError(f"got {value!r}, expected at most six digits, as in paths: {named(value)}")
    return value


def _labels(value: Any) -> Any:
    """Return labels as a mapping from text to class names; in a list, each label is its own name."""
    if isinstance(value, list):
        if strange := [label for label in value if not isinstance(label, (str, int, float))]:
            raise ValueError(f"got {strange[0]!r} in the list, expected names of classes")
        value = {label: label for label in _distinct(value)}
    if not isinstance(value, dict):
        return value
    _distinct([str(_bool_as_text(label)) for label in value])
    return {str(_bool_as_text(label)): _bool_as_text(name) for label, name in value.items()}


def _bool_as_text(value: Any) -> Any:
    """Return a boolean as text, true or false as in tables, and other values unchanged."""
    return as_text(value) if isinstance(value, bool) else value


def _class_names(value: Any) -> Any:
    """Return a mapping with its boolean keys as text, because they are names of classes."""
    return {_bool_as_text(k): v for k, v in value.items()} if isinstance(value, dict) else value


def _encoding(value: str) -> str:
    try:
        "a".encode(value)
    except (LookupError, UnicodeError, ValueError):
        names = sorted({*aliases.values()})
        raise ValueError(
            f"got '{value}', expected an encoding such as latin-1.{nearest(value, names)}"
        ) from None
    return value


def _delimiter(value: str) -> str:
    value = "\t" if value == r"\t" else value
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in '"\r\n':
        raise ValueError(f"got {value!r}, expected one character, such as ';' or \"\\t\"")
    return value


def _as_list(value: Any) -> Any:
    """Return a single value as a list, and booleans as text."""
    return [_bool_as_text(each) for each in (value if isinstance(value, list) else [value])]


def _seed(value: int) -> int:
    if value > LARGEST_SEED:
        raise ValueError(f"got {value}, expected at most {LARGEST_SEED}")
    return value


T = TypeVar("T")
LARGEST_SEED = 2**31 - 1  # tables store seeds in 32 bits
LONGEST_NAME = 64  # characters; names of files join up to three names, and have at most 255
#: accepts a number that YAML reads as text
NUMBER = BeforeValidator(_number)
#: accepts booleans as names of classes
CLASS_NAMES = BeforeValidator(_class_names)
Seed = Annotated[int, Field(ge=0), NUMBER, AfterValidator(_seed)]
Encoding = Annotated[str, AfterValidator(_encoding)]
Delimiter = Annotated[str, AfterValidator(_delimiter)]
#: stored values; a single one need not be a list
Values = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=list[str] | str)]
Count = Annotated[int, Field(ge=1), NUMBER]
Positive = Annotated[float, Field(gt=0), NUMBER]
NotNegative = Annotated[float, Field(ge=0), NUMBER]
#: a number that is part of paths, which scripts read from them
IN_PATHS = AfterValidator(_in_paths)
Fraction = Annotated[float, Field(gt=0, le=1), NUMBER]
FractionBelowOne = Annotated[float, Field(ge=0, lt=1), NUMBER]
Distinct = Annotated[
    list[T],
    AfterValidator(_distinct),
    Field(json_schema_extra={"uniqueItems": True}),
]
NAME_RULE = f"name (at most {LONGEST_NAME} letters, digits, '.', '_', '-')"
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=LONGEST_NAME,
        json_schema_extra={"format": NAME_RULE},
    ),
]
Checksum = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{8,64}$", json_schema_extra={"format": "8 to 64 hexadecimal digits, in lower case"}
    ),
]
Labels = Annotated[
    dict[str, str], BeforeValidator(_labels, json_schema_input_type=dict[str, str] | list[str])
]
