"""The setting ``ability``: by which control items a model shows that it can do its task, or why none are asked. This
module imports no numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pytest_genderbias.errors import SettingError
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Rule

ABILITY = "ability"  #: the setting
_WORDS = '"none: REASON" to leave ability unasked, or the path of a YAML file of control items'
NONE = "none"  #: begins the setting that leaves ability unasked
#: What the setting means: the reason why ability is not asked, or the files of the user's control items. Without files,
#: only the packaged ones are asked.
AbilitySetting: TypeAlias = str | tuple[Path, ...]


def read_ability(written: object, where: str = "ability") -> AbilitySetting:
    """Return what the setting ``ability`` means.

    Args:
        written: ``None`` for the packaged control items; ``"none: REASON"`` to ask none; the path of a file of control
            items, or several.
        where: what messages call it.

    Raises:
        SettingError: it is something else.

    >>> read_ability("none: a random network"), read_ability(None)
    ('a random network', ())
    """
    if written is None:
        return ()
    if isinstance(written, Mapping) and set(written) == {NONE}:
        written = f"{NONE}: {written[NONE]}"
    if isinstance(written, str) and written.partition(":")[0].strip() == NONE:
        return " ".join(written.partition(":")[2].split()) or "no reason given"
    paths = [written] if isinstance(written, (str, Path)) else list(written) if isinstance(written, Sequence) else []
    if not paths or not all(isinstance(path, (str, Path)) and str(path).endswith((".yaml", ".yml")) for path in paths):
        raise SettingError(f"{where} should be {_WORDS}, got {written!r:.80}")
    return tuple(Path(str(path)) for path in paths)


def ability_from(written: object, folder: Path, where: str = "ability") -> str | list[str] | None:
    """Return the setting ``ability`` of a file, with the paths of control items from the folder of that file.

    Raises:
        SettingError: as :func:`read_ability`.
    """
    setting = read_ability(written, where)
    if isinstance(setting, str):
        return f"{NONE}: {setting}"
    return [str(folder / expand(str(path))) for path in setting] or None


_FILE: TypeAlias = Annotated[str, Rule("", pattern=r"\.ya?ml$")]
_REASON: TypeAlias = Annotated[str, Rule("", pattern=rf"^\s*{NONE}\s*(:|$)")]
_ONE = Rule("", test=lambda written: set(written) == {NONE}, required=[NONE], maxProperties=1)
#: The setting as a file has it.
Ability: TypeAlias = Annotated[_FILE | _REASON | list[_FILE] | Annotated[Mapping[str, Any], _ONE] | None, Rule(_WORDS)]
