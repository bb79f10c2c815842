"""The packaged occupations with both forms: their grammar, as far as a rule can tell it, and their shares."""

from __future__ import annotations

import re

import pytest

from pytest_genderbias.text.wordlist import load_wordlist

LISTS = {"de": "women_share_france", "es": "women_share_france", "fr": "women_share", "it": "women_share_france"}
ARTICLES = {
    "fr": {"female.a": "une", "male.a": "un", "female.the": "la", "male.the": "le"},
    "es": {"female.a": "una", "male.a": "un", "female.the": "la", "male.the": "el"},
    "it": {"female.a": "una", "male.a": "un", "female.the": "la", "male.the": "il"},
    "de": {
        "female.a": "eine",
        "male.a": "ein",
        "female.the": "die",
        "male.the": "der",
        "female.a_accusative": "eine",
        "male.a_accusative": "einen",
        "female.the_dative": "der",
        "male.the_dative": "dem",
    },
}
#: Endings of German nouns that take -n or -en in all cases but the nominative.
WEAK = re.compile(r"(?:[^aeiou]e|ist|ent|ant|fotograf|architekt|soldat|metz|bauer)$", re.IGNORECASE)


def forms_of(language: str) -> list[dict[str, str]]:
    return [dict(entry.attributes["forms"]) for entry in load_wordlist(f"occupations-{language}").entries]


@pytest.mark.parametrize("language", LISTS)
def test_each_has_two_forms_all_articles_and_a_share(language: str) -> None:
    entries = load_wordlist(f"occupations-{language}").entries
    assert len(entries) >= 60
    for entry in entries:
        forms = entry.attributes["forms"]
        assert set(forms) == {"female", "male", *ARTICLES[language]}
        assert entry.word == f"{forms['male']} / {forms['female']}" and forms["male"] != forms["female"]
        assert 0 < entry.attributes[LISTS[language]] < 100
        assert re.fullmatch(r"[A-Z]\d[A-Z]\d\d", entry.attributes["family"])
    shares = [entry.attributes[LISTS[language]] for entry in entries]
    assert 25 <= sum(share >= 50 for share in shares) <= len(shares) - 25, "enough on both sides"


@pytest.mark.parametrize("language", ["es", "fr"])
def test_articles_agree_and_are_elided_before_a_vowel(language: str) -> None:
    for forms in forms_of(language):
        for name, article in ARTICLES[language].items():
            bare = forms[name.partition(".")[0]]
            elided = language == "fr" and name.endswith(".the") and re.match("[aeiouyéèêâîôû]|h[oô]t", bare)
            assert forms[name] == (f"l'{bare}" if elided else f"{article} {bare}")


def test_italian_articles_agree_with_the_sound_that_follows() -> None:
    seen = set()
    for forms in forms_of("it"):
        for name, article in ARTICLES["it"].items():
            gender, _, kind = name.partition(".")
            bare = forms[gender]
            if re.match("[aeiou]", bare):
                article = {"the": "l'", "a": "un'" if gender == "female" else "un "}[kind]
            elif gender == "male" and re.match("s[^aeiou]|ps|gn|z|x|y", bare):
                article = {"the": "lo ", "a": "uno "}[kind]
            else:
                article += " "
            assert forms[name] == article + bare
            seen.add(article)
    assert seen == {"una ", "un'", "un ", "uno ", "la ", "il ", "lo ", "l'"}


def test_german_articles_agree_and_weak_nouns_have_their_cases() -> None:
    for forms in forms_of("de"):
        male = forms["male"]
        oblique = male + ("n" if male.endswith(("e", "bauer")) else "en") if WEAK.search(male) else male
        for name, article in ARTICLES["de"].items():
            noun = forms[name.partition(".")[0]]
            noun = oblique if name in ("male.a_accusative", "male.the_dative") else noun
            assert forms[name] == f"{article} {noun}"
        assert forms["female"].endswith(("in", "frau", "mutter"))
