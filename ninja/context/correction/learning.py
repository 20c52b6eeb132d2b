"""Learn from transcript edits which phrases were inserted, and which words these phrases replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

from ninja.context.correction.compiled import compile_list
from ninja.context.correction.corrector import Corrector, Transcript, apply_changes
from ninja.context.correction.edits import Edit, Edits, Verdict, identities, read_edits
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.search import matches
from ninja.context.correction.stage import Correcting, make_corrector
from ninja.context.entities.edit_evidence import (
    PhraseEvidence,
    Run,
    appended,
    merged,
    phrase_form,
    without_last_run,
)
from ninja.context.entities.lists import MAX_CHARACTERS, Entities, Phrase, PhraseList, has_control_characters
from ninja.context.entities.written import affixes, ends_sentence, is_capitalised
from ninja.errors import Log, OptionError, check_range
from ninja.evaluate import align
from ninja.evaluate import edits as num_edits
from ninja.files.stream import open_raw
from ninja.formats.kaldi.tables import read_speakers
from ninja.lattice.text import BASIC, Normalizer, make_normalizer

Name = str | os.PathLike[str]
GZIP = b"\x1f\x8b"

RARE = 13.0  # minimum unigram cost in nats of a word that may be a name missing from all lists
CAPITALISED = 9.0  # minimum unigram cost if the word is capitalised; words such as "I" and "Mr." have lower costs
MAX_NEW_WORDS = 6  # maximum number of words of a new phrase; longer replacements are other text, not names
MAX_REPLACED_WORDS = 8
TRIALS = 3  # maximum number of rounds that correct the recognised texts and add evidence against wrong changes
FIRST_PERSON = {"i", "i'm", "i'll", "i've", "i'd"}  # words that are capitalised anywhere in a sentence


@dataclass(frozen=True, slots=True)
class LearnResult:
    """The result of learning from edits."""

    content: bytes  # content of the entity file with the evidence
    run: Run  # the new edits and their evidence
    num_known: int  # number of edits that earlier runs counted
    phrases: tuple[PhraseEvidence, ...]  # phrases that are new, or whose weights or recognised forms change


class Region(NamedTuple):
    """Corrected words and the recognised words that they replaced, as ranges of lexical words."""

    begin: int  # first corrected word
    end: int  # last corrected word plus 1
    first: int  # first recognised word
    last: int  # last recognised word plus 1


def learn_edits(
    edits: Edits,
    content: bytes,
    corrector: Corrector,
    *,
    min_count: int = 2,
    path: str = "",
    groups: Mapping[str, str] | None = None,
) -> LearnResult:
    """Use transcript edits to learn phrases, their weights, and the words that are recognised in their place.

    Recognised and corrected texts are aligned by lexical forms. Where the texts differ, a listed phrase in the
    corrected text counts as evidence for the phrase, a sequence of rare words in the corrected text as evidence for a
    new phrase, and a listed phrase in the recognised text as evidence against the phrase. The recognised texts are then
    corrected with the result; a change that does not bring a recognised text closer to the corrected text counts as
    evidence against the inserted phrase. Edits that were counted in earlier runs are ignored.

    Args:
        edits: Edits, or verdicts on corrections.
        content: Content of the entity file to extend, including the evidence from earlier runs.
        corrector: Corrector that compares phrases and words.
        min_count: Minimum number of edits that must support a new phrase, a changed weight or a recognised form, ≥ 1.
        path: Path of the entity file, for error messages and for relative paths of phrase files.
        groups: Group of each utterance, in addition to groups in the file.

    Raises:
        FormatError: The entity file has the wrong format.
        OptionError: `min_count` is out of range.
    """
    check_range("min_count", min_count, least=1)
    read = partial(Entities.parsed, path=path, groups=groups, normalizer=corrector.normalizer)
    entities = read(content)
    names = identities(edits)
    new = [(edit, name) for edit, name in zip(edits, names, strict=True) if name not in entities.edit_evidence.edits]
    if not new and min_count == entities.edit_evidence.min_count:
        return LearnResult(content, Run(min_count, ()), len(edits), tuple(entities.edit_evidence.effective))
    items: list[PhraseEvidence] = []
    for edit, _ in new:
        items += [_of_verdict(edit, corrector)] if isinstance(edit, Verdict) else _of_edit(edit, entities, corrector)
    run = Run(min_count, tuple(name for _, name in new), merged(items))
    texts = [edit for edit, _ in new if isinstance(edit, Edit)]
    for _ in range(TRIALS):
        against = list(_against(texts, read(appended(content, run)), corrector))
        if not against:
            break
        run = replace(run, evidence=merged([*run.evidence, *against]))
    result = appended(content, run)
    evidence = read(result).edit_evidence
    return LearnResult(result, run, len(edits) - len(new), tuple(evidence.effective))


def learn(
    edits: Edits | Name,
    lists: Name | None = None,
    *,
    min_count: int = 2,
    groups: Name | None = None,
    letters_only: bool = False,
    normalizer: Name | Normalizer = BASIC,
    log: Log | None = None,
) -> LearnResult:
    """Learn phrases from transcript edits; see `learn_edits`.

    Args:
        edits: Edits, or a file that `read_edits` reads.
        lists: Path of the entity file to extend. The file itself is not changed.  [default: start with no phrases]
        min_count: Minimum number of edits that must support a new phrase, a changed weight or a recognised form, ≥ 1.
        groups: File with the group of each utterance, in the format of Kaldi's utt2spk.
        letters_only: Compare letters instead of phones.
        normalizer: Normalizer that returns the lexical forms by which words are compared.
        log: Log that receives the notes.

    Raises:
        FormatError: A file has the wrong format.
        InputError: A file cannot be read.
        OptionError: `min_count` is out of range, or the entity file is compressed.
    """
    options = CorrectOptions(letters_only=letters_only)
    corrector = make_corrector(
        Correcting(Entities.from_dict({}), options=options), make_normalizer(normalizer), Log() if log is None else log
    )
    return learn_edits(
        edits if isinstance(edits, Sequence) and not isinstance(edits, str) else read_edits(edits),
        b"" if lists is None else entity_bytes(lists),
        corrector,
        min_count=min_count,
        path="" if lists is None else os.fspath(lists),
        groups=None if groups is None else read_speakers(groups),
    )


def undo(lists: Name) -> bytes:
    """Return the content of an entity file without the changes of the last run of ``ninja learn``.

    Raises:
        FormatError: The file contains no evidence from edits.
        InputError: The file cannot be read.
        OptionError: The file is compressed.
    """
    return without_last_run(entity_bytes(lists), os.fspath(lists))


def entity_bytes(path: Name) -> bytes:
    """Read an entity file and return its bytes.

    Raises:
        InputError: The file cannot be read.
        OptionError: The file is compressed.
    """
    with open_raw(os.fspath(path)) as stream:
        content = stream.read()
    if content.startswith(GZIP):
        raise OptionError(f"{os.fspath(path)}: learning from edits requires an uncompressed file; decompress it")
    return content


def _against(edits: Iterable[Edit], entities: Entities, corrector: Corrector) -> Iterator[PhraseEvidence]:
    """Yield evidence against phrases that change a recognised text without bringing it closer to the corrected text."""
    for edit in edits:
        reference = corrector.normalizer.words(edit.corrected)
        errors = num_edits(reference, corrector.normalizer.words(edit.recognised))
        for change in corrector.changes(edit.recognised, entities.of(edit.key)):
            if change.kind == "spelling":
                continue
            after = corrector.normalizer.words(apply_changes(edit.recognised, [change]))
            if num_edits(reference, after) >= errors:
                before = " ".join(corrector.normalizer.words(change.before))
                if before in entities.edit_evidence.changes(change.phrase)[1]:
                    yield PhraseEvidence(change.phrase, change.cls, {before: -1})
                else:
                    yield PhraseEvidence(change.phrase, change.cls, rejected=1)


def _of_verdict(verdict: Verdict, corrector: Corrector) -> PhraseEvidence:
    if not verdict.is_right:
        return PhraseEvidence(verdict.phrase, verdict.cls, rejected=1)
    before = " ".join(corrector.normalizer.words(verdict.before))
    return PhraseEvidence(verdict.phrase, verdict.cls, {before: 1} if before else {}, accepted=1)


def _of_edit(edit: Edit, entities: Entities, corrector: Corrector) -> Iterator[PhraseEvidence]:
    corrected, recognised = corrector.transcript(edit.corrected), corrector.transcript(edit.recognised)
    if corrected.lexical == recognised.lexical:
        return
    lists = entities.of(edit.key)
    pairs = align(corrected.lexical, recognised.lexical).pairs
    place = _places(pairs)
    regions: list[Region] = []
    for begin, end in _longest(corrector.phrase_spans(corrected, lists)):
        region = Region(begin, end, place[begin], place[end])
        words = recognised.lexical[region.first : region.last]
        if words and corrected.lexical[begin:end] != words:
            regions.append(region)
            phrase, cls = corrector.listed(corrected.lexical[begin:end], lists)
            yield PhraseEvidence(phrase, cls, _form(words), accepted=1)
    for begin, end in _longest(corrector.phrase_spans(recognised, lists)):
        words = recognised.lexical[begin:end]
        if all(place[at] != begin or corrected.lexical[at : at + len(words)] != words for at in range(len(place) - 1)):
            phrase, cls = corrector.listed(words, lists)
            yield PhraseEvidence(phrase, cls, rejected=1)
    for region in _regions(pairs):
        for name in _names(region, corrected, place, corrector):
            if all(name.end <= selected.begin or name.begin >= selected.end for selected in regions):
                regions.append(name)
                is_whole = name.begin <= region.begin and name.end >= region.end
                yield from _new_phrase(name, corrected, recognised, corrector, is_whole=is_whole)


def _longest(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Choose spans that do not overlap, preferring long spans; return the spans in order."""
    chosen: list[tuple[int, int]] = []
    for begin, end in sorted(spans, key=lambda span: (span[0] - span[1], span)):
        if all(end <= first or begin >= last for first, last in chosen):
            chosen.append((begin, end))
    return sorted(chosen)


def _places(pairs: Sequence[tuple[str | None, str | None]]) -> list[int]:
    """Return the index of the recognised word at which each corrected word begins.

    The last element is the number of recognised words. Recognised words that are aligned with no corrected word belong
    to the next corrected word if that word was misrecognised.
    """
    place: list[int] = []
    at = waiting = 0
    for word, other in pairs:
        if word is not None:
            place.append(waiting if word != other else at)
        at += other is not None
        if word is not None:
            waiting = at
    return [*place, at]


def _regions(pairs: Sequence[tuple[str | None, str | None]]) -> Iterator[Region]:
    """Yield the regions where the texts differ and both texts contain words."""
    begin = first = 0
    for is_same, group in groupby(pairs, lambda pair: pair[0] == pair[1]):
        rows = list(group)
        end = begin + sum(word is not None for word, _ in rows)
        last = first + sum(other is not None for _, other in rows)
        if not is_same and begin < end and first < last:
            yield Region(begin, end, first, last)
        begin, first = end, last


def _names(region: Region, corrected: Transcript, place: Sequence[int], corrector: Corrector) -> Iterator[Region]:
    """Yield the names in a region: rare words, and the capitalised words around them.

    The cost above which a word is rare is lower for capitalised words (`CAPITALISED`) than for other words (`RARE`).
    """
    capitalised = {at for at in range(len(corrected.lexical)) if _is_capitalised(at, corrected)}
    names = {
        at
        for at in range(region.begin, region.end)
        if corrector.rarity(corrected.lexical[at]) >= (CAPITALISED if at in capitalised else RARE)
    }
    capitalised |= names
    at = region.begin
    while at < region.end:
        begin = end = at
        while end in capitalised:
            end += 1
        while end > at and begin - 1 in capitalised:
            begin -= 1
        if not names.isdisjoint(range(begin, end)):
            first = region.first if begin >= region.begin else place[begin]
            last = region.last if end <= region.end else place[end]
            yield Region(begin, end, first, last)
        at = max(end, at + 1)


def _is_capitalised(at: int, transcript: Transcript) -> bool:
    """Return whether a word is capitalised inside a sentence; False for "I", and if all words are capitalised."""
    word = transcript.word[at]
    written = transcript.written
    return (
        is_capitalised(written[word])
        and word > 0
        and not ends_sentence(written[word - 1])
        and transcript.lexical[at] not in FIRST_PERSON
        and not all(map(is_capitalised, written))
    )


def _new_phrase(
    name: Region, corrected: Transcript, recognised: Transcript, corrector: Corrector, *, is_whole: bool
) -> Iterator[PhraseEvidence]:
    """Yield the `PhraseEvidence` for a name in the corrected text, if an entity file can list the name.

    A name that is too long, or that replaces a text that is too long, does not become a phrase.

    Args:
        name: The name, and the recognised words that it replaced.
        corrected: The corrected text.
        recognised: The recognised text.
        corrector: Corrector that compares the name and the words.
        is_whole: Whether the name spans the whole difference between the texts.
    """
    if name.end - name.begin > MAX_NEW_WORDS or name.last - name.first > MAX_REPLACED_WORDS:
        return
    first, last = corrected.written_span(name.begin, name.end)
    text = _without_punctuation(corrected.written[first:last])
    if not phrase_form(text) or len(text) > MAX_CHARACTERS or has_control_characters(text):
        return
    words = recognised.lexical[name.first : name.last]
    form: dict[str, int] = {}
    if (similar := _most_similar(text, words, corrector)) is not None:
        form = _form(words[similar[0] : similar[1]])
    elif is_whole:
        form = _form(words)
    yield PhraseEvidence(text, "", form, added=1)


def _most_similar(text: str, words: Sequence[str], corrector: Corrector) -> tuple[int, int] | None:
    """Return the range of words that sounds most like a phrase, or None if no words sound like it."""
    compiled = compile_list(PhraseList("", {"": (Phrase(text),)}), corrector.sounds, corrector.normalizer)
    best = matches(words, [compiled.strings])
    return (best[0].begin, best[0].end) if best else None


def _without_punctuation(words: Sequence[str]) -> str:
    """Return the words as text, without the punctuation before the first word and after the last word."""
    text = " ".join(words)
    return text.removeprefix(affixes(words[0])[0]).removesuffix(affixes(words[-1])[1])


def _form(words: Sequence[str]) -> dict[str, int]:
    return {" ".join(words): 1} if 0 < len(words) <= MAX_REPLACED_WORDS else {}
