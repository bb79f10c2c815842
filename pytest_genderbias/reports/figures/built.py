"""``pictures_of``: the pictures of a measurement, made where all its records and item statistics are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.figures import table_pictures, units
from pytest_genderbias.reports.picture import Picture

_Builder = Callable[[Measurement], "Picture | tuple[Picture | None, ...] | None"]
#: By family: what its pictures show. A family that is not here has none.
BUILDERS: Mapping[str, _Builder] = {
    "bbq": units.template_lean,
    "bios": units.class_gaps,
    "ceat": units.words_by_set,
    "chat-iat": units.attribute_association,
    "coref-occupation": units.occupation_bars,
    "coref-winobias": units.class_gaps,
    "coref-winogender": units.pronoun_likelihood,
    "corpus": units.word_bias,
    "decisions": units.decision_bars,
    "disco": table_pictures.fills,
    "generation": units.sentiment_bars,
    "lm-occupation": units.occupation_bars,
    "nli": table_pictures.heat_map,
    "pairs-pll": units.histogram,
    "probe": table_pictures.compression,
    "pronoun-occupation": units.pronoun_ratio,
    "sts": units.sentence_similarity,
    "subspace": units.along_component,
    "weat": units.words_by_set,
    "winobias-chat": units.class_gaps,
    "winogender-chat": units.pronoun_likelihood,
}


def pictures_of(measurement: Measurement) -> tuple[Picture, ...]:
    """Return the pictures of a measurement, the most telling first.

    Args:
        measurement: with all its records and item statistics. One that was shortened for a report, or has no value, has
            no pictures.
    """
    build = BUILDERS.get(str(measurement.signature["definition"]).partition("/")[0])
    if build is None or not measurement.items or measurement.value is None:
        return ()
    made = table_pictures.restarts(measurement) if measurement.restarts else build(measurement)
    return tuple(one for one in (made if isinstance(made, tuple) else (made,)) if one is not None)
