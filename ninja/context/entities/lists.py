"""`Entities`, the phrase lists of utterances; utterances can share lists."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ninja.context.entities.edit_evidence import NO_EDITS, EditEvidence
from ninja.context.entities.normalise import AS_TABLE, AsListed, Normalisation, Normaliser
from ninja.context.entities.parse import EVERYONE, Entry, Section, read_sections, sections_of
from ninja.errors import counted
from ninja.evaluate.phrases import Entity, Phrases
from ninja.files.stream import Guard, identity_of
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import NONE, Normalizer, unknown_forms

MAX_WORDS = 32  # maximum number of words per phrase
MAX_CHARACTERS = 1000  # maximum number of characters per phrase or pronunciation
MAX_WEIGHT = 100.0  # maximum weight of a phrase
_SHOWN = 3  # maximum number of examples in a note
_STRESS = re.compile(r"(?<=\b[A-Z]{2})[0-2]\b")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase, spelled as in the symbol table; phrases compared by lexical form are spelled as in their list."""

    text: str  # words separated by single spaces
    weight: float = 1.0  # factor applied to the boost; a negative weight makes the phrase less probable
    pronunciations: tuple[str, ...] = ()  # phones separated by whitespace; ARPAbet as in cmudict, without stress
    recognised: tuple[str, ...] = ()  # lexical words that are recognised in place of the phrase


@dataclass(frozen=True, eq=False)
class PhraseList:
    """The phrases of one list. A shared list is a single object, and lists are compared by identity."""

    name: str  # name of a shared list, "*" for all utterances, "group:NAME" for a group, "" for a single utterance
    classes: Mapping[str, tuple[Phrase, ...]]  # phrases by class, such as "@name"; "" for no class

    def __iter__(self) -> Iterator[tuple[str, Phrase]]:
        """Yield (class, phrase) for each phrase."""
        return ((name, phrase) for name, phrases in self.classes.items() for phrase in phrases)

    @property
    def num_phrases(self) -> int:
        """Number of phrases in all classes."""
        return sum(map(len, self.classes.values()))

    @cached_property
    def has_capitals(self) -> bool:
        """Whether any phrase contains a capital letter. If so, the list defines the case of its phrases."""
        return any(phrase.text.lower() != phrase.text for _, phrase in self)

    @cached_property
    def spotted(self) -> Phrases:
        """The phrases with a weight >= 0, prepared for searching transcripts."""
        return Phrases(Entity(name, phrase.text) for name, phrase in self if phrase.weight >= 0)


@dataclass(frozen=True, slots=True)
class UnknownWords:
    """Phrases with words missing from a symbol table, for one class; a phrase in several lists is counted once."""

    class_name: str
    num_phrases: int  # number of phrases in the class
    phrases: tuple[tuple[str, tuple[str, ...]], ...]  # phrases with unknown words, and their unknown words

    def __str__(self) -> str:
        name = self.class_name or "no class"
        shown = ", ".join(f"{text!r} ({', '.join(map(repr, missing))})" for text, missing in self.phrases[:_SHOWN])
        more = ", …" if len(self.phrases) > _SHOWN else ""
        verb = "has" if len(self.phrases) == 1 else "have"
        count = f"{len(self.phrases)} of {counted(self.num_phrases, 'phrase')} {verb}"
        return f"{name}: {count} words that are not in the symbol table: {shown}{more}"


class Entities:
    """The phrases of each utterance: phrases for all utterances, for its group, and for the utterance alone."""

    def __init__(
        self,
        sections: Iterable[Section],
        spell: Normaliser,
        groups: Mapping[str, str],
        path: str | None,
        edit_evidence: EditEvidence = NO_EDITS,
    ) -> None:
        """Create entities from parsed sections; see ``read`` and ``from_dict``.

        Args:
            sections: Sections of the file.
            spell: Normaliser that is applied to phrases.
            groups: Group of each utterance, in addition to groups in the sections.
            path: Path of the file, for messages.
            edit_evidence: Evidence from edits, which changes the weights of phrases.
        """
        self.edit_evidence = edit_evidence
        by_kind: dict[str, dict[str, Section]] = {"all": {}, "group": {}, "list": {}, "utt": {}}
        for section in sections:
            first = by_kind[section.kind].setdefault(section.name, section)
            if first is not section:
                position = f", first in line {first.location.line}" if first.location.line else ""
                section.refuse(f"occurs twice{position}; merge the occurrences")
        builder = _Builder(spell, edit_evidence)
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
                section.refuse(f"the group {section.group!r} is not defined; define it, or correct the name")
            if groups.get(name, section.group) != section.group:
                reason = f"the group is {section.group!r} here, but {groups[name]!r} in the group file"
                section.refuse(f"{reason}; use the same group in both files")
            self._group_of[name] = section.group
        prefix = f"{path}: " if path else ""
        used = {name for kind in scopes for section in by_kind[kind].values() for name in section.lists}
        unused = {
            ("list is", "lists are", "never used"): [name for name in self.lists if name not in used],
            ("group has", "groups have", "no utterance"): sorted(self._groups.keys() - set(self._group_of.values())),
        }
        self.problems: tuple[str, ...] = (  # probable mistakes, which are not errors
            *(f"{prefix}{_counted(names, *words)}: {_first(names)}" for words, names in unused.items() if names),
            *([] if self.num_phrases else [f"{prefix}there are no phrases"]),
            *(section.short_file for section in by_kind["list"].values() if section.short_file),
            *([f"{prefix}{builder.duplicates_found()}"] if builder.duplicates else []),
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
        """Read an entity file, optionally compressed with gzip.

        The format is detected from the content: JSON, JSONL, TSV or a phrase list. A phrase list contains no tabs; each
        line is a phrase for all utterances.

        Args:
            path: The file. Paths of phrase files in this file are relative to its directory.
            words: Symbol table of the lattices; phrases are normalised to its spelling.
            rules: Rules for normalising phrases.
            groups: Group of each utterance, in addition to groups in the file; see ``ninja.evaluate.read_speakers``.
            guard: Guard that prevents outputs from overwriting the phrase files.
            normalizer: Unless this is the identity, phrases are compared by their lexical forms and keep their
                spelling, and `words` and `rules` are ignored.

        Raises:
            FormatError: The file has the wrong format; a phrase is empty, too long, or in a list twice with different
                weights; a weight is not in [-100, 100]; an utterance, group or list is defined twice; or a list or
                group is not defined.
            InputError: The file or a phrase file cannot be read.
            OptionError: An output would overwrite a phrase file.
        """
        name = os.fspath(path)
        sections, edit_evidence = read_sections(name)
        if guard is not None:
            for listed in (listed for section in sections for listed in section.files):
                guard.read(listed, identity_of(listed))
        return cls(sections, _speller(words, rules, normalizer), groups or {}, name, edit_evidence)

    @classmethod
    def parsed(
        cls, content: bytes, *, path: str = "", groups: Mapping[str, str] | None = None, normalizer: Normalizer = NONE
    ) -> Entities:
        """Create entities from the content of a file; see ``read``."""
        sections, edit_evidence = read_sections(path, content)
        return cls(sections, _speller(None, AS_TABLE, normalizer), groups or {}, path or None, edit_evidence)

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
        """Create entities from a dict with the structure of a JSON file, such as ``{"@name": ["tom chen"]}``.

        See ``read`` for the arguments and errors. Paths are relative to the current directory.
        """
        return cls(sections_of(content, None), _speller(words, rules, normalizer), groups or {}, None)

    def of(self, key: str) -> tuple[PhraseList, ...]:
        """Return the phrase lists that apply to an utterance.

        The result contains the shared lists that the utterance uses, and the lists for all utterances, for the
        utterance's group and for the utterance itself. An utterance that has no group and does not occur in the file
        gets only the phrases for all utterances.
        """
        group = self._groups.get(self._group_of.get(key, ""), _Scope())
        scopes = (self._everyone, group, self._utterances.get(key, _Scope()))
        shared = dict.fromkeys(phrases for scope in scopes for phrases in scope.lists)
        return (*shared, *(scope.inline for scope in scopes if scope.inline is not None))

    def phrases(self, keys: Iterable[str]) -> dict[str, list[Phrases]]:
        """Return the phrases of utterances in the format that ``ninja.evaluate.score_entities`` expects."""
        return {key: [phrases.spotted for phrases in self.of(key)] for key in keys}

    @property
    def keys(self) -> tuple[str, ...]:
        """The utterances that occur in the file, in file order."""
        return tuple(self._utterances)

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes with phrases, in alphabetical order; includes "" if there are phrases without a class."""
        return tuple(sorted({name for phrases in self.all_lists for name in phrases.classes}))

    @property
    def num_phrases(self) -> int:
        """Total number of phrases in all lists; a phrase in several lists is counted in each of them."""
        return sum(phrases.num_phrases for phrases in self.all_lists)

    def unknown(self, words: SymbolTable, normalizer: Normalizer = NONE) -> tuple[UnknownWords, ...]:
        """Return the phrases that contain words missing from a symbol table, sorted by class.

        Args:
            words: The symbol table.
            normalizer: Unless this is the identity, words are compared by lexical form: a word is known only if each of
                its lexical words occurs in the lexical form of some word in the table.
        """
        texts: dict[str, dict[str, None]] = {}
        for phrases in self.all_lists:
            for name, members in phrases.classes.items():
                texts.setdefault(name, {}).update(dict.fromkeys(phrase.text for phrase in members))
        reports = []
        for name in sorted(texts):
            spelled = {word for text in texts[name] for word in text.split(" ")}
            is_known = dict.fromkeys(spelled, True) | dict.fromkeys(_unknown(spelled, words, normalizer), False)
            missing = ((text, tuple(word for word in text.split(" ") if not is_known[word])) for text in texts[name])
            if unknown := tuple(pair for pair in missing if pair[1]):
                reports.append(UnknownWords(name, len(texts[name]), unknown))
        return tuple(reports)

    @property
    def all_lists(self) -> list[PhraseList]:
        """All phrase lists: shared lists, and the lists for all utterances, for groups and individual utterances."""
        scopes = [self._everyone, *self._groups.values(), *self._utterances.values()]
        return [*self.lists.values(), *(scope.inline for scope in scopes if scope.inline is not None)]

    def __repr__(self) -> str:
        source = f" of {self.path}" if self.path else ""
        return f"Entities({self.num_phrases} phrases, {len(self.keys)} utterances{source})"


@dataclass(frozen=True, slots=True)
class _Scope:
    """The phrase lists that one section defines or refers to."""

    lists: tuple[PhraseList, ...] = ()
    inline: PhraseList | None = None


@dataclass(slots=True)
class _Builder:
    """Builder that creates the phrase lists of sections and records duplicates."""

    spell: Normaliser
    edit_evidence: EditEvidence
    epsilon: str | None = field(init=False)  # name of epsilon in the table
    duplicates: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        words = self.spell.words
        self.epsilon = None if words is None else next((word for word, number in words if number == EPSILON), None)

    def scope(self, section: Section, lists: Mapping[str, PhraseList]) -> _Scope:
        for name in section.lists:
            if name not in lists:
                section.refuse(f"the list {name!r} is not defined; define it, or correct the name")
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
        for entry in section.added:
            phrase = self._phrase(section, entry)
            if not any(self.spell.form(phrase.text) in phrases for phrases in classes.values()):
                classes.setdefault(entry.class_name, {})[self.spell.form(phrase.text)] = phrase
        return PhraseList(name, {cls: tuple(map(self._weighted, phrases.values())) for cls, phrases in classes.items()})

    def _weighted(self, phrase: Phrase) -> Phrase:
        """Return a phrase with the weight and the recognised forms that result from transcript edits."""
        factor, recognised = self.edit_evidence.changes(phrase.text)
        if factor == 1 and not recognised:
            return phrase
        weight = phrase.weight * factor if phrase.weight > 0 else phrase.weight
        return replace(phrase, weight=min(weight, MAX_WEIGHT), recognised=recognised)

    def duplicates_found(self) -> str:
        """Return a note with the number of duplicate phrases and the first few duplicates."""
        shown, more = "; ".join(self.duplicates[:_SHOWN]), "; …" if len(self.duplicates) > _SHOWN else ""
        count = _counted(self.duplicates, "phrase occurs", "phrases occur", "twice in a list")
        return f"{count}; the second occurrence is ignored: {shown}{more}"

    def _phrase(self, section: Section, entry: Entry) -> Phrase:
        if len(entry.text) > MAX_CHARACTERS:
            section.refuse_entry(
                f"the phrase has {len(entry.text)} characters; at most {MAX_CHARACTERS} are allowed", entry
            )
        text = self.spell(entry.text)
        if not text:
            reason = f"{entry.text!r} is only punctuation" if entry.text.strip() else "the phrase is empty"
            section.refuse_entry(f"{reason}; remove it", entry)
        if text.count(" ") >= MAX_WORDS:
            section.refuse_entry(f"the phrase has {text.count(' ') + 1} words; at most {MAX_WORDS} are allowed", entry)
        if has_control_characters(text):
            section.refuse_entry(f"{entry.text[:60]!r} contains a control character; remove it", entry)
        if self.epsilon is not None and self.epsilon in text and self.epsilon in text.split(" "):
            section.refuse_entry(f"{self.epsilon!r} in {entry.text[:60]!r} is not a word; remove it", entry)
        if not abs(entry.weight) <= MAX_WEIGHT:  # also refuses NaN
            reason = f"{text[:60]!r} has the weight {entry.weight:g}, but weights must be in"
            section.refuse_entry(f"{reason} [-{MAX_WEIGHT:g}, {MAX_WEIGHT:g}]", entry)
        if not entry.pronunciations:
            return Phrase(text, entry.weight)
        return Phrase(text, entry.weight, tuple(dict.fromkeys(_phones(section, entry))))

    def _merged(self, section: Section, first: Phrase, earlier: Entry, again: Phrase, entry: Entry) -> Phrase:
        """Merge a phrase with its earlier entry; if the phrase has no new pronunciation, record it as a duplicate."""
        phrase_name = f"{first.text!r} of {entry.class_name or 'no class'}"
        home = section.location.path
        if again.weight != first.weight:
            weights = f"the weight {again.weight:g}, but {first.weight:g} at {earlier.location.seen_from(home)}"
            section.refuse_entry(f"{phrase_name} has {weights}; remove one of them", entry)
        if set(again.pronunciations) - set(first.pronunciations):
            pronunciations = dict.fromkeys((*first.pronunciations, *again.pronunciations))
            return Phrase(first.text, first.weight, tuple(pronunciations))
        places = f"{earlier.location.seen_from(home)} and {entry.location.seen_from(home)}"
        self.duplicates.append(f"{phrase_name} in {section.label} at {places}")
        return first


def has_control_characters(text: str) -> bool:
    """Return whether a text contains control characters or surrogates, which no phrase may contain."""
    return not text.isprintable() and any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def _phones(section: Section, entry: Entry) -> Iterator[str]:
    for pronunciation in entry.pronunciations:
        phones = " ".join(pronunciation.split())
        if not 1 <= len(phones) <= MAX_CHARACTERS:
            reason = f"{len(phones)} characters; at most {MAX_CHARACTERS} are allowed" if phones else "no phones"
            section.refuse_entry(f"a pronunciation of {entry.text[:60]!r} has {reason}", entry)
        yield _STRESS.sub("", phones)


def _speller(words: SymbolTable | None, rules: Normalisation, normalizer: Normalizer) -> Normaliser:
    return Normaliser(words, rules) if normalizer.is_identity else AsListed(normalizer)


def _unknown(spelled: Iterable[str], words: SymbolTable, normalizer: Normalizer) -> list[str]:
    """Return the words that are missing from a symbol table."""
    missing = [word for word in spelled if words.id(word) in (None, EPSILON)]
    if not missing or normalizer.is_identity:
        return missing
    return unknown_forms(missing, words, normalizer)


def _counted(names: Sequence[str], one: str, many: str, predicate: str) -> str:
    return f"{len(names)} {one if len(names) == 1 else many} {predicate}"


def _first(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
