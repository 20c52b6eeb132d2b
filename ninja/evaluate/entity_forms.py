"""Comparison of recognised entities with their spelling in the entity lists."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ninja.evaluate.entity_report import Mention
from ninja.evaluate.phrases import Entity
from ninja.evaluate.written import written_units
from ninja.lattice.text import Normalizer

Lists = Sequence[Mapping[tuple[str, ...], set[str]]]  # each list maps lexical words to written phrases
_SENTENCE_END = re.compile(r"[.?!:…。！？][\"'”’»)\]]*$")


def with_forms(
    mentions: Sequence[Mention],
    lists: Lists,
    hypothesis: Sequence[str],
    normalizer: Normalizer,
) -> list[Mention]:
    """Determine which entities in a reference have the same spelling in the hypothesis as in the entity lists.

    Args:
        mentions: Occurrences of entities in the reference, as lexical words.
        lists: Entity lists for the utterance, each of which maps lexical words to written phrases.
        hypothesis: Written words of the hypothesis.
        normalizer: Normalizer that converts written words to lexical words.

    Returns:
        The mentions with ``in_form`` set, and with the written phrase from the lists as the text of each entity.
    """
    lexical, written, owner = written_units(hypothesis, normalizer)
    outcomes: dict[str, list[bool]] = {}
    results = []
    for mention in mentions:
        phrase = tuple(mention.entity.text.split())
        forms = set[str]().union(*(of_list.get(phrase, ()) for of_list in lists))
        if mention.entity.text not in outcomes:
            places = [(begin, begin + len(phrase)) for begin in occurrences(lexical, phrase)]
            outcomes[mention.entity.text] = [_has_form(written, owner, place, forms) for place in reversed(places)]
        in_form = mention.is_correct and outcomes[mention.entity.text].pop()
        results.append(replace(mention, entity=as_listed(mention.entity, lists), in_form=in_form))
    return results


def as_listed(entity: Entity, lists: Lists) -> Entity:
    """Replace the lexical words of an entity with its written form in the lists; use the alphabetically first form."""
    words = tuple(entity.text.split())
    return entity._replace(
        text=min((min(texts) for of_list in lists if (texts := of_list.get(words))), default=entity.text)
    )


def occurrences(words: Sequence[str], phrase: Sequence[str]) -> list[int]:
    """Return the indices at which non-overlapping occurrences of a phrase begin."""
    begins = []
    begin = 0
    while phrase and begin + len(phrase) <= len(words):
        if tuple(words[begin : begin + len(phrase)]) == tuple(phrase):
            begins.append(begin)
            begin += len(phrase)
        else:
            begin += 1
    return begins


def _has_form(written: Sequence[str], owner: Sequence[int], place: tuple[int, int], forms: set[str]) -> bool:
    """Return whether an entity in a hypothesis is spelled like one of its written forms.

    Punctuation at both ends is ignored. At the start of a sentence, a form can also begin with a capital letter.

    Args:
        written: Written words of the hypothesis.
        owner: Index of the written word for each lexical word of the hypothesis.
        place: ``(begin, end)`` of the entity in the lexical words.
        forms: Written forms of the entity.
    """
    first, last = owner[place[0]], owner[place[1] - 1]
    text = strip_punctuation(" ".join(written[first : last + 1]))
    texts = {strip_punctuation(form) for form in forms}
    if first == 0 or _SENTENCE_END.search(written[first - 1]):
        texts |= {form[:1].upper() + form[1:] for form in texts}
    return text in texts


def strip_punctuation(text: str) -> str:
    """Strip characters other than letters and digits from both ends of a text; keep combining marks at the end."""
    begin, end = 0, len(text)
    while begin < end and unicodedata.category(text[begin])[0] not in "LN":
        begin += 1
    while end > begin and unicodedata.category(text[end - 1])[0] not in "LNM":
        end -= 1
    return text[begin:end]
