"""Entities: phrases of utterances, by class, in lists that utterances share or have for themselves."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ninja.context.entities.normalise import AS_TABLE, AsListed, Normalisation, Normaliser
from ninja.context.entities.parse import EVERYONE, Entry, Section, read_sections, sections_of
from ninja.evaluate.entities import Phrases
from ninja.evaluate.entity_report import Entity
from ninja.files.output import Guard
from ninja.files.place import identity_of
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import NONE, Normalizer, unknown_forms

MAX_WORDS = 32  # of a phrase
MAX_CHARACTERS = 1000  # of a phrase, or of a pronunciation
MAX_WEIGHT = 100.0  # factor of a boost
_SHOWN = 3  # examples in a note
_STRESS = re.compile(r"(?<=\b[A-Z]{2})[0-2]\b")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase in the spelling of the symbol table, or of its list if it is compared by its lexical form."""

    text: str  # words separated by single blanks
    weight: float = 1.0  # factor of its boosts; a negative one makes it less probable
    pronunciations: tuple[str, ...] = ()  # phones separated by blanks, ARPAbet as in cmudict, without stress


@dataclass(frozen=True, eq=False)
class PhraseList:
    """The phrases of one list; a shared list is one object, and lists are compared by identity."""

    name: str  # of a shared list; "*" for all utterances, "group:NAME" for a group, "" for one utterance
    classes: Mapping[str, tuple[Phrase, ...]]  # by class such as "@name"; "" for no class

    @property
    def num_phrases(self) -> int:
        """Number of phrases of all classes."""
        return sum(map(len, self.classes.values()))

    @cached_property
    def has_capitals(self) -> bool:
        """Whether the list distinguishes case: a phrase has a capital."""
        return any(phrase.text.lower() != phrase.text for phrases in self.classes.values() for phrase in phrases)

    @cached_property
    def spotted(self) -> Phrases:
        """The phrases of no negative weight, for the search in transcripts."""
        pairs = ((name, phrase) for name, phrases in self.classes.items() for phrase in phrases)
        return Phrases(Entity(name, phrase.text) for name, phrase in pairs if phrase.weight >= 0)


@dataclass(frozen=True, slots=True)
class UnknownWords:
    """Phrases of a class with words that a symbol table lacks; a phrase of several lists counts once."""

    class_name: str
    num_phrases: int  # of the class
    phrases: tuple[tuple[str, tuple[str, ...]], ...]  # those with unknown words, and these words

    def __str__(self) -> str:
        name = self.class_name or "no class"
        shown = ", ".join(f"{text!r} ({', '.join(map(repr, missing))})" for text, missing in self.phrases[:_SHOWN])
        more = ", …" if len(self.phrases) > _SHOWN else ""
        count = f"{len(self.phrases)} of {self.num_phrases} phrases have"
        return f"{name}: {count} words that the symbol table lacks: {shown}{more}"


class Entities:
    """The phrases of each utterance: those for all utterances, those of its group, and its own."""

    def __init__(
        self, sections: Iterable[Section], spell: Normaliser, groups: Mapping[str, str], path: str | None
    ) -> None:
        """Make entities of sections, as ``read`` and ``from_dict`` do."""
        by_kind: dict[str, dict[str, Section]] = {"all": {}, "group": {}, "list": {}, "utt": {}}
        for section in sections:
            first = by_kind[section.kind].setdefault(section.name, section)
            if first is not section:
                position = f", first in line {first.place.line}" if first.place.line else ""
                section.refuse(f"occurs twice{position}; merge the two")
        builder = _Builder(spell)
        self.path = path
        self.lists: Mapping[str, PhraseList] = {
            name: builder.phrases(section, name) for name, section in by_kind["list"].items()
        }
        scopes = {
            kind: {name: builder.scope(section, self.lists) for name, section in by_kind[kind].items()}
            for kind in ("all", "group", "utt")
        }
        self._everyone = scopes["all"].get(EVERYONE, _Scope())
        self._groups, self._utterances = scopes["group"], scopes["utt"]
        self._group_of = dict(groups)
        for name, section in by_kind["utt"].items():
            if section.group is None:
                continue
            if section.group not in self._groups:
                section.refuse(f"its group {section.group!r} is defined nowhere")
            if groups.get(name, section.group) != section.group:
                section.refuse(f"its group is {section.group!r} here, but {groups[name]!r} in the table of groups")
            self._group_of[name] = section.group
        place = f"{path}: " if path else ""
        used = {name for kind in scopes for section in by_kind[kind].values() for name in section.lists}
        unused = {
            ("list is", "lists are", "never used"): [name for name in self.lists if name not in used],
            ("group has", "groups have", "no utterance"): sorted(self._groups.keys() - set(self._group_of.values())),
        }
        self.problems: tuple[str, ...] = (  # likely mistakes that are no errors
            *(f"{place}{_counted(names, *words)}: {_first(names)}" for words, names in unused.items() if names),
            *([] if self.num_phrases else [f"{place}there are no phrases"]),
            *(section.short_file for section in by_kind["list"].values() if section.short_file),
            *([f"{place}{builder.duplicates_found()}"] if builder.duplicates else []),
        )

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        words: SymbolTable | None = None,
        rules: Normalisation = AS_TABLE,
        groups: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        normalizer: Normalizer = NONE,
    ) -> Entities:
        """Read an entity file; ``.gz`` is decompressed. The format is detected from the content.

        It is JSON, JSONL, TSV, or, without a tab, a list of phrases for all utterances, one per line.

        Args:
            path: The file; files that its lists name are relative to its folder.
            words: Symbol table of the lattices, to whose spelling phrases are normalised.
            groups: Group of each utterance in addition to the file's, see ``ninja.evaluate.read_speakers``.
            guard: Notes the files of phrases that the file names, which no output may replace.
            normalizer: Phrases are compared by their lexical forms, and keep their spelling; `words` and `rules` are
                not used then.

        Raises:
            FormatError: The format is violated, a phrase is empty, too long or twice in a list with different weights,
                a weight is not finite, an utterance occurs twice, or a list or group is used but not defined.
            InputError: The file, or that of a list, cannot be read.
            OptionError: An output replaces a file of phrases.
        """
        name = os.fspath(path)
        sections = read_sections(name)
        if guard is not None:
            for listed in (listed for section in sections for listed in section.files):
                guard.read(listed, identity_of(listed))
        return cls(sections, _speller(words, rules, normalizer), groups or {}, name)

    @classmethod
    def from_dict(
        cls,
        content: Mapping[str, Any],
        *,
        words: SymbolTable | None = None,
        rules: Normalisation = AS_TABLE,
        groups: Mapping[str, str] | None = None,
        normalizer: Normalizer = NONE,
    ) -> Entities:
        """Make entities of the content of a JSON file, such as ``{"@name": ["tom chen"]}`` for all utterances.

        Arguments and errors are those of ``read``; paths are relative to the current directory.
        """
        return cls(sections_of(content, None), _speller(words, rules, normalizer), groups or {}, None)

    def of(self, key: str) -> tuple[PhraseList, ...]:
        """Return the lists of an utterance: shared ones, that for all utterances, that of its group, its own.

        An utterance that the file does not name has the phrases for all.
        """
        group = self._groups.get(self._group_of.get(key, ""), _Scope())
        scopes = (self._everyone, group, self._utterances.get(key, _Scope()))
        shared = dict.fromkeys(phrases for scope in scopes for phrases in scope.lists)
        return (*shared, *(scope.inline for scope in scopes if scope.inline is not None))

    def phrases(self, keys: Iterable[str]) -> dict[str, list[Phrases]]:
        """Return the phrases of some utterances for ``ninja.evaluate.score_entities``."""
        return {key: [phrases.spotted for phrases in self.of(key)] for key in keys}

    @property
    def keys(self) -> tuple[str, ...]:
        """The utterances that the file names, in its order."""
        return tuple(self._utterances)

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes that have phrases, sorted; "" if there are phrases of no class."""
        return tuple(sorted({name for phrases in self.all_lists for name in phrases.classes}))

    @property
    def num_phrases(self) -> int:
        """Number of phrases of all lists; one of several lists counts in each."""
        return sum(phrases.num_phrases for phrases in self.all_lists)

    def unknown(self, words: SymbolTable, normalizer: Normalizer = NONE) -> tuple[UnknownWords, ...]:
        """Return the phrases with words that a symbol table lacks, by class, sorted; they stay in the lists.

        Args:
            normalizer: A word is unknown if one of its lexical words is part of no word of the table.
        """
        texts: dict[str, dict[str, None]] = {}
        for phrases in self.all_lists:
            for name, members in phrases.classes.items():
                texts.setdefault(name, {}).update(dict.fromkeys(phrase.text for phrase in members))
        reports = []
        for name in sorted(texts):
            spelled = {word for text in texts[name] for word in text.split(" ")}
            known = dict.fromkeys(spelled, True) | dict.fromkeys(_unknown(spelled, words, normalizer), False)
            missing = ((text, tuple(word for word in text.split(" ") if not known[word])) for text in texts[name])
            if unknown := tuple(pair for pair in missing if pair[1]):
                reports.append(UnknownWords(name, len(texts[name]), unknown))
        return tuple(reports)

    @property
    def all_lists(self) -> list[PhraseList]:
        """All lists: shared ones, that for all utterances, those of groups and of utterances."""
        scopes = [self._everyone, *self._groups.values(), *self._utterances.values()]
        return [*self.lists.values(), *(scope.inline for scope in scopes if scope.inline is not None)]

    def __repr__(self) -> str:
        source = f" of {self.path}" if self.path else ""
        return f"Entities({self.num_phrases} phrases, {len(self.keys)} utterances{source})"


@dataclass(frozen=True, slots=True)
class _Scope:
    """The lists of one section."""

    lists: tuple[PhraseList, ...] = ()
    inline: PhraseList | None = None


@dataclass(slots=True)
class _Builder:
    """Makes phrase lists of sections, and records duplicates."""

    spell: Normaliser
    epsilon: str | None = field(init=False)  # its name in the table
    duplicates: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        words = self.spell.words
        self.epsilon = None if words is None else next((word for word, number in words if number == EPSILON), None)

    def scope(self, section: Section, lists: Mapping[str, PhraseList]) -> _Scope:
        for name in section.lists:
            if name not in lists:
                section.refuse(f"the list {name!r} is defined nowhere")
        inline = self.phrases(section, {"all": EVERYONE, "group": f"group:{section.name}", "utt": ""}[section.kind])
        return _Scope(tuple(lists[name] for name in section.lists), inline if inline.classes else None)

    def phrases(self, section: Section, name: str) -> PhraseList:
        classes: dict[str, dict[str, Phrase]] = {}
        first: dict[tuple[str, str], Entry] = {}
        for entry in section.entries:
            phrase = self._phrase(section, entry)
            form = self.spell.form(phrase.text)
            earlier = first.setdefault((entry.class_name, form), entry)
            phrases = classes.setdefault(entry.class_name, {})
            if earlier is not entry:
                phrase = self._merged(section, phrases[form], earlier, phrase, entry)
            phrases[form] = phrase
        return PhraseList(name, {cls: tuple(phrases.values()) for cls, phrases in classes.items()})

    def duplicates_found(self) -> str:
        """Return the note on duplicates."""
        shown, more = "; ".join(self.duplicates[:_SHOWN]), "; …" if len(self.duplicates) > _SHOWN else ""
        count = _counted(self.duplicates, "phrase occurs", "phrases occur", "twice in a list")
        return f"{count}, the second without effect: {shown}{more}"

    def _phrase(self, section: Section, entry: Entry) -> Phrase:
        if len(entry.text) > MAX_CHARACTERS:
            section.refuse_entry(f"a phrase of {len(entry.text)} characters; {MAX_CHARACTERS} are the most", entry)
        text = self.spell(entry.text)
        if not text:
            fault = f"{entry.text!r} is only punctuation" if entry.text.strip() else "the phrase is empty"
            section.refuse_entry(f"{fault}; take it out", entry)
        if text.count(" ") >= MAX_WORDS:
            section.refuse_entry(f"a phrase of {text.count(' ') + 1} words; {MAX_WORDS} are the most", entry)
        if not text.isprintable() and any(unicodedata.category(char) in ("Cc", "Cs") for char in text):
            section.refuse_entry(f"{entry.text[:60]!r} has a control character; take it out", entry)
        if self.epsilon is not None and self.epsilon in text and self.epsilon in text.split(" "):
            section.refuse_entry(f"{self.epsilon!r} in {entry.text[:60]!r} is not a word; take it out", entry)
        if not abs(entry.weight) <= MAX_WEIGHT:  # NaN, too
            fault = f"{text[:60]!r} has the weight {entry.weight:g}; it must be finite, and {MAX_WEIGHT:g} is the most"
            section.refuse_entry(fault, entry)
        if not entry.pronunciations:
            return Phrase(text, entry.weight)
        return Phrase(text, entry.weight, tuple(dict.fromkeys(_phones(section, entry))))

    def _merged(self, section: Section, first: Phrase, earlier: Entry, again: Phrase, entry: Entry) -> Phrase:
        """Merge a phrase with its earlier entry; only another pronunciation is a reason for a second entry."""
        phrase_name = f"{first.text!r} of {entry.class_name or 'no class'}"
        home = section.place.path
        if again.weight != first.weight:
            weights = f"the weight {again.weight:g}, but {first.weight:g} at {earlier.place.seen_from(home)}"
            section.refuse_entry(f"{phrase_name} has {weights}; take one out", entry)
        if set(again.pronunciations) - set(first.pronunciations):
            pronunciations = dict.fromkeys((*first.pronunciations, *again.pronunciations))
            return Phrase(first.text, first.weight, tuple(pronunciations))
        places = f"{earlier.place.seen_from(home)} and {entry.place.seen_from(home)}"
        self.duplicates.append(f"{phrase_name} in {section.label} at {places}")
        return first


def _phones(section: Section, entry: Entry) -> Iterator[str]:
    for pronunciation in entry.pronunciations:
        phones = " ".join(pronunciation.split())
        if not 1 <= len(phones) <= MAX_CHARACTERS:
            wrong = f"{len(phones)} characters; {MAX_CHARACTERS} are the most" if phones else "no phones"
            section.refuse_entry(f"a pronunciation of {entry.text[:60]!r} has {wrong}", entry)
        yield _STRESS.sub("", phones)


def _speller(words: SymbolTable | None, rules: Normalisation, normalizer: Normalizer) -> Normaliser:
    return Normaliser(words, rules) if normalizer.is_identity else AsListed(normalizer)


def _unknown(spelled: Iterable[str], words: SymbolTable, normalizer: Normalizer) -> list[str]:
    """Return the words that a symbol table lacks."""
    missing = [word for word in spelled if words.id(word) in (None, EPSILON)]
    if not missing or normalizer.is_identity:
        return missing
    return unknown_forms(missing, words, normalizer)


def _counted(names: Sequence[str], one: str, many: str, predicate: str) -> str:
    return f"{len(names)} {one if len(names) == 1 else many} {predicate}"


def _first(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
