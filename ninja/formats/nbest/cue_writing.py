"""Writers for subtitle files: they replace the words in an input file, or create captions for lists with times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ninja.errors import LatticeError
from ninja.formats.format import FIELDS, Format, Read, Write, WriteSettings
from ninja.formats.hypotheses.document import DocumentEncoder
from ninja.formats.hypotheses.mixed import TIMES_OF_WORDS, MixedEncoder, is_of, lost_others
from ninja.formats.nbest.captions import Caption, captions, wrapped
from ninja.formats.nbest.cue_text import escaped, tokens
from ninja.formats.nbest.cues import LATEST, CueOptions, Syntax, check_word, read_document, rewrite_cues
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.timed import TimedOptions, TimedWords
from ninja.formats.nbest.writing import spelled
from ninja.formats.textual import encoded
from ninja.lattice.nbest import NBest

TAGS = "words that players interpret as tags"  # listed in messages about lost fields


def cue_format(
    syntax: Syntax, about: str, mark: Callable[[bytes], object], extension: str, aliases: tuple[str, ...] = ()
) -> Format:
    """Create the format for subtitle files with a given syntax.

    The encoder replaces the words in files that were read from this format, and writes captions for other lists.
    """

    def encoder(settings: WriteSettings) -> MixedEncoder:
        documents = DocumentEncoder(settings, syntax.form, partial(rewrite_cues, syntax=syntax))
        return MixedEncoder(syntax.form, documents, CaptionEncoder(settings, syntax))

    return Format(
        name=syntax.form,
        about=about,
        holds="nbest",
        extensions=(extension,),
        aliases=aliases,
        mark=mark,
        results=True,
        read=Read(list_entries(partial(read_document, syntax=syntax)), CueOptions),
        keeps=frozenset({"key", "times", "frame shift", "names", "fields"}),  # fields that rewritten files keep
        write=Write(
            encoder=encoder, options=TimedOptions, also_lost=partial(lost_of_cues, syntax=syntax), restores=True
        ),
    )


class CaptionEncoder:
    """Encoder that divides the best hypothesis of each n-best list into captions; see `captions`.

    If the utterance has times, but its words have none, the hypothesis becomes a single caption. A list whose best
    hypothesis has no words is omitted.
    """

    def __init__(self, settings: WriteSettings, syntax: Syntax) -> None:
        self._syntax = syntax
        self._settings = settings
        self._timed = TimedWords(settings.options)
        self._header = syntax.header
        self._count = 0
        self._last: tuple[int, str | None] = (0, None)  # start of the last caption in milliseconds, and its recording

    def add(self, nbest: NBest) -> bytes:
        """Encode the best hypothesis of a list and return the next bytes of the file.

        Raises:
            LatticeError: The utterance has no times, begins before the previous utterance, or belongs to another
                recording.
            SymbolError: A word contains characters that would end the cue.
        """
        content = self._captions(nbest)
        return self.end() + content

    def end(self) -> bytes:
        """Return the header of the file if it has not been returned yet, else no bytes."""
        header, self._header = self._header, b""
        return header

    def _captions(self, nbest: NBest) -> bytes:
        markup = self._syntax.markup
        words = spelled(nbest.hypotheses[0], self._settings.words, nbest.key)
        if not words:
            return b""
        for word in words:
            check_word(word, self._syntax, nbest.key)
        place = self._timed.of(nbest, words)
        if place.begins is not None and place.ends is not None:
            items = captions(words, place.begins, place.ends)
        elif place.begin is not None and place.end is not None:
            items = [Caption(place.begin, place.end, tuple(wrapped(words)))]
        else:
            message = "the list has no times, which subtitles require; use lists with times (CTM, JSON with words)"
            raise LatticeError(f"{message}, or lattices with alignments (ninja align-words)", key=nbest.key)
        pieces = []
        count, last = self._count, self._last
        for item in items:
            begin, end = round(1000 * item.begin), round(1000 * item.end)
            if not 0 <= begin <= end <= LATEST:
                raise LatticeError(f"the times {item.begin} to {item.end} s are out of range", key=nbest.key)
            self._check_order(begin, place.recording, last, nbest.key)
            count, last = count + 1, (begin, place.recording)
            lines = [escaped(line, markup) for line in item.lines]
            if place.speaker is not None and self._syntax.has_voices:
                lines[0] = f"<v {escaped(place.speaker, markup)}>{lines[0]}"
            pieces.append(self._syntax.cue(count, begin, end, lines))
        content = encoded("".join(pieces), self._settings.encoding, nbest.key)
        self._count, self._last = count, last
        return content

    def _check_order(self, begin: int, recording: str | None, last: tuple[int, str | None], key: str) -> None:
        before, other = last
        if self._count and recording != other:
            message = (
                f"{self._syntax.form} files contain one recording, but this utterance belongs to {recording}, and "
            )
            raise LatticeError(f"{message}earlier ones to {other}; write one file per recording", key=key)
        if begin < before:
            message = (
                f"the utterance begins at {begin / 1000} s, before the previous one ({before / 1000} s); specify the "
            )
            message += (
                f"start times of the utterances in their recording (--to {self._syntax.form}:segments=FILE), or write "
            )
            raise LatticeError(f"{message}each recording to a separate file", key=key)


def lost_of_cues(nbest: NBest, settings: WriteSettings, syntax: Syntax) -> list[str]:
    """Return messages about lost data: words that players would hide, and fields that captions cannot store.

    Rewritten files lose no fields.
    """
    words = spelled(nbest.hypotheses[0], settings.words, nbest.key)
    shown = tokens(escaped(" ".join(words), syntax.markup), syntax.markup)
    lost = [] if [token.word for token in shown] == words else [TAGS]
    if is_of(nbest, syntax.form):
        return lost
    lost.append(FIELDS["key"])
    if any(hypothesis.begin for hypothesis in nbest.hypotheses):
        lost.append(TIMES_OF_WORDS)
    return lost + lost_others(nbest, syntax.form, "start", "end")
