"""Lattice writers: the base class, the writer for Kaldi archives, and the writer for scale files next to an output."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

from ninja.errors import LatticeError, OptionError, OutputError, SymbolError, counted, named
from ninja.files import remote
from ninja.files.output import Facts, PartFile, Target, part_of, remove_facts, reported, toml_text, write_facts
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard, is_file, is_read_once, is_remote
from ninja.formats.format import FIELDS, KALDI, Format, OutputFormat, Write, WriteSettings, fill_options
from ninja.formats.kaldi.archive import ArchiveOutput, EncodedBatch
from ninja.io.earlier_attempt import Done, Occurrences
from ninja.io.losses import COSTS, Item, converted, describe_losses, lost_fields, with_scales
from ninja.io.sources import ChosenScales, scales_path, table_path
from ninja.io.word_tables import OutputWords
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import check_costs, not_a_lattice
from ninja.lattice.symbols import SymbolTable

_COMMENT = "Scales for the lattices next to this file, used by default by ninja best, score and other commands."
NUMBERS = "numbers"  # name of the lattice numbers in the facts about a run; see `ninja.io.resume`
LONGEST_KEY = 4096  # maximum length of a key in bytes
Lossy = Literal["allow", "refuse"]
Self = TypeVar("Self", bound="LatticeWriter")


class OutputSettings(NamedTuple):
    """Settings for writing an output."""

    target: Target
    format: Format
    settings: WriteSettings
    resume: bool = False  # whether to continue the Kaldi archive of an interrupted run
    kind: Kind | None = None  # kind of lattices in Kaldi archives; None keeps the kind of each lattice
    lossy: Lossy = "allow"
    words_out: str | None = None  # file for the symbol table; None writes it next to the output if ids need it
    note: str | None = None  # note about the scales with which costs were combined
    chosen: ChosenScales | None = None  # scales for the scale file
    run: Facts | None = None  # facts on which the lattices depend; if they differ, an output cannot be resumed
    guard: Guard | None = None  # guard that protects the inputs from being replaced

    @classmethod
    def of(
        cls,
        form: OutputFormat,
        *,
        words: SymbolTable | None = None,
        encoding: str = "utf-8",
        scales: Scales | None = None,
        originals: Sequence[str] = (),
        **others: Any,
    ) -> OutputSettings:
        """Return the settings for an output with a resolved name and format.

        Args:
            form: Name and format of the output.
            words: See ``ninja.write``.
            encoding: See ``ninja.write``.
            scales: See ``ninja.write``; None uses the scales of `chosen`.
            originals: See ``ninja.write``.
            others: Other fields of the settings.

        Raises:
            OptionError: An option does not exist, or does not apply to the format.
        """
        format, target = form.format, form.target
        for option in ("resume", "kind"):
            if others.get(option) and not form.is_kaldi:
                raise OptionError(
                    f"{option} applies only to Kaldi archives, but the format of {form.name!r} is {format.name}"
                )
        chosen: ChosenScales | None = others.get("chosen")
        if scales is None and chosen is not None:
            scales = chosen.scales
        values, note = (form.options, None) if form.is_kaldi or scales is None else with_scales(form, scales)
        assert format.write is not None
        is_text = target.archive.removesuffix(".gz").endswith(".txt")
        options = fill_options(format.write.options, values, format.name, text=is_text)
        if form.to is not None and form.is_kaldi:
            target = target._replace(text=format.name == KALDI[1])
        return cls(target, format, WriteSettings(options, words, encoding, tuple(originals)), note=note, **others)

    @property
    def place(self) -> str:
        """Path or URL of the output, or ``-``."""
        return self.target.archive

    @property
    def is_kaldi(self) -> bool:
        """Whether the output is a Kaldi archive."""
        return self.format.name in KALDI


class LatticeWriter:
    """Writer for lattices, n-best lists or confusion networks; use it in a ``with`` block.

    Files get their final names when the block ends without an exception; otherwise they are removed. If an error has a
    ``key``, only the lattice with that key is omitted, and writing can continue. After any other error, writing
    cannot continue. Several threads can call `write`.

    Attributes:
        keys_done: Number of lattices with each key that a resumed output already contains.
        done: The lattices in the sources that the run skips because a resumed output already contains them.
        lost: For each lost field, the number of lattices that lost it.
        resumed: Description of the earlier attempt, if the output was resumed.
        num_saved: Number of lattices in a failed output that were saved for the next attempt.
        words_path: Path of the symbol table, if it was written.
        scales_path: Path of the scale file, if it was written.
    """

    def __init__(self, output: OutputSettings) -> None:
        if output.lossy not in ("allow", "refuse"):
            raise OptionError(f"lossy is {output.lossy!r}, but must be allow or refuse")
        if output.kind not in (None, "compact", "raw"):
            raise OptionError(f"kind is {output.kind!r}, but must be compact or raw")
        assert output.format.write is not None
        self.name = output.place
        self.format = output.format
        self.keys_done: Counter[str] = Counter()
        self.done: Done | None = None
        self.lost: Counter[str] = Counter()
        self.resumed: str | None = None
        self.num_saved = 0
        self.words_path: str | None = None
        self.scales_path: str | None = None
        self._output = output
        self._write = output.format.write
        self._settings = output.settings
        self._keeps = output.format.stored_fields(output.settings.options)
        untimed = {"key", "alignments", "raw", *COSTS}  # all fields that a lattice without times can have
        self._keeps_untimed = output.format.holds == "lattice" and self._keeps >= untimed and not self._write.also_lost
        self._keys: Counter[str] = Counter()
        self._is_open = False
        self._lock = threading.Lock()  # held while a lattice is written
        self._words: OutputWords | None = None  # symbol table of the output; None while no lattice has words
        beside = filter(None, (output.target.archive, output.target.script))
        self._scales = ScalesOutput(beside, output.chosen if self._keeps >= COSTS else None, output.guard)

    @property
    def needs_words(self) -> bool:
        """Whether the output contains word ids but not the words."""
        return "ids" in self._keeps and "names" not in self._keeps

    def __enter__(self: Self) -> Self:
        try:
            self._open()
            self._scales.begin()
        except BaseException:
            self._give_up()
            raise
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_open = False
        if error is not None:
            self._give_up()
            return
        try:
            self._finish()
            self._scales.finish()
        except BaseException:
            self._give_up()
            raise
        self.scales_path = self._scales.path
        if self._words is not None:
            self.words_path = self._words.write()

    def _give_up(self) -> None:
        """Remove the unfinished output, or save it for the next attempt."""
        self._scales.abandon(keep=self._is_kept())
        self._abandon()

    def _is_kept(self) -> bool:
        """Return whether a failed output is saved for the next attempt."""
        return False

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice, converted to an n-best list or a confusion network if the format requires it.

        Args:
            item: A lattice, or an n-best list or confusion network if the format stores this type.
            key: Utterance id; None uses the key of the item.

        Raises:
            LatticeError: The format cannot store the item or, with ``lossy="refuse"``, one of its fields.
            SymbolError: A word id has no word, has a different word than in earlier lattices, or has a word that the
                format cannot store.
            OptionError: The item is neither a lattice nor of a type that the format stores, or words would be lost.
            OutputError: The item cannot be written, for example because the disk is full, or because the file stores a
                single lattice and already contains one.
        """
        if isinstance(item, tuple):
            raise not_a_lattice(item)
        if key is not None and key != item.key:
            item = item.with_key(key) if isinstance(item, Lattice) else replace(item, key=key)
        with self._lock:
            if not self._is_open:
                raise OutputError("the writer is not open; use it in a with block", self.name)
            self._append(item)

    def _append(self, item: Item) -> None:
        """Append an item; see `write`."""
        name = item.key
        try:
            output_item: Any = item
            lost: list[str] = []
            if isinstance(item, Lattice):
                check_costs(item)
                if (words := self._words_for(item)) is not None:
                    words.check(item, name)
            if self.format.holds != "lattice" or not isinstance(item, Lattice):
                output_item, lost = converted(item, self.format, self._settings, with_names=not self.needs_words)
            self._check_key(name)
            if FIELDS["paths"] not in lost and not (
                self._keeps_untimed and output_item.time is None is output_item.frame_shift
            ):
                lost = lost + lost_fields(item, output_item, self._keeps, self._write, self._settings)
                lost += [] if self._keeps_key(name) else [FIELDS["key"]]
            if lost and self._output.lossy == "refuse":
                message = f"{self.format.name} cannot store: {', '.join(lost)}; use lossy='allow' (--lossy allow)"
                raise LatticeError(f"{message} to drop these fields", key=name)
            self._put(name, output_item)
        except UnicodeEncodeError as error:
            raise SymbolError("a word or the key cannot be encoded as UTF-8", key=name) from error
        except (LatticeError, SymbolError) as error:
            error.key = error.key or name
            raise
        self._keys[name] += 1
        if isinstance(item, Lattice) and self._words is not None:
            self._words.take(item)
        if lost:
            self.lost.update(lost)

    def _words_for(self, lattice: Lattice) -> OutputWords | None:
        """Return the symbol table of the output, with which `lattice` must agree; None until a lattice has words.

        Raises:
            OptionError: The output has no symbol table, but an existing file would be mistaken for its table.
        """
        output = self._output
        sources = lattice.words, output.settings.words, output.words_out
        if self._words is None and any(words is not None for words in sources):
            self._words = OutputWords(
                self.name,
                output.settings.words,
                output.words_out,
                needed=self.needs_words,
                shared="ids" in self._keeps,
                follows=bool(self._keys),
                guard=output.guard,
            )
        if self._words is None and not self._keys and self.needs_words and not is_read_once(self.name):
            path = table_path(self.name)
            if self.name != os.devnull and is_file(path):
                raise OptionError(f"{path} already exists and would become the symbol table of the output; move it")
        return self._words

    def prepared(self, batch: Batch) -> Any | None:
        """Encode a batch for `write_all`; return None if its lattices must be written one by one.

        Batches can be encoded on any thread and in any order.
        """
        return None

    def write_all(self, batch: Batch, prepared: Any) -> bool:
        """Append a batch encoded by `prepared`; return False if its lattices must be written one by one."""
        raise NotImplementedError

    def write_on_thread(self) -> None:
        """Write all following encoded batches on a separate thread, if the format supports it."""

    def note_failure(self, key: str) -> None:
        """Record that the next lattice with this key failed; a resumed run will process it again."""

    def notes(self) -> list[str]:
        """Return messages to show to the user once the output is complete."""
        notes = []
        if self.words_path is not None and self._output.words_out is None:
            notes.append(f"wrote the symbol table to {self.words_path}")
        elif self.words_path is None and self._output.words_out is not None:
            notes.append(f"{self._output.words_out} was not written, because the lattices have no symbol table")
        if self.scales_path is not None:
            notes.append(f"wrote the scales to {self.scales_path}")
        if self.repeated:
            duplicates = [key for key, count in self._keys.items() if count > 1]
            notes.append(f"{counted(len(duplicates), 'key occurs', 'keys occur')} more than once: {named(duplicates)}")
        if self._output.note is not None and self._keys:
            notes.append(self._output.note)
        if self.lost:
            notes.append(f"warning: {self.format.name} files cannot store all fields; {describe_losses(self.lost)}")
        return notes

    @property
    def repeated(self) -> bool:
        """Whether more than one lattice was written with the same key."""
        return self._keys.total() > len(self._keys)

    def _keeps_key(self, key: str) -> bool:
        """Return whether the output stores the key."""
        return "key" in self._keeps

    def _check_key(self, key: str) -> None:
        """Raise an error if the output cannot store a key."""
        check_key(key, self._write, self._settings.encoding)
        if self._write.unique_keys and key in self._keys:
            raise OutputError(
                "the key is already in the output, which can contain each key only once", self.name, key=key
            )

    def _open(self) -> None:
        """Open the files."""
        raise NotImplementedError

    def _put(self, key: str, item: Any) -> None:
        """Write an item that `write` has checked and converted to the type that the format stores."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Complete the files, and give them their final names."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Remove the files, even if ``_finish`` has failed."""
        raise NotImplementedError


class KaldiWriter(LatticeWriter):
    """Writer for a binary or text Kaldi archive.

    Raises:
        OptionError: The output is a folder.
    """

    def __init__(self, output: OutputSettings) -> None:
        super().__init__(output)
        if os.path.isdir(self.name):
            raise OptionError(f"the output {self.name!r} is a folder; add a file name")
        self._archive = ArchiveOutput(output.target, output.guard)
        self._kind = output.kind
        self._occurrences: Occurrences | None = None  # None until a lattice fails

    def _open(self) -> None:
        self._archive.open()
        self._write_facts()
        self._archive.begin()

    def _put(self, key: str, item: Any) -> None:
        lattice: Lattice = item
        self._archive.append(lattice, key, compact=(self._kind or lattice.kind) == "compact")
        self._note_written([key])  # in time, because `append` only adds the bytes to a buffer

    def prepared(self, batch: Batch) -> EncodedBatch | None:
        """Encode a batch; return None if its lattices must be written one by one."""
        if self._output.lossy == "refuse" or not self._are_ordinary(batch):
            return None
        try:
            return self._archive.encode(batch, self._kind)
        except (LatticeError, UnicodeEncodeError):  # writing the lattices one by one will report the invalid lattice
            return None

    def _are_ordinary(self, batch: Batch) -> bool:
        """Return whether a Kaldi archive can store all fields and keys of these lattices without further checks."""
        keys = batch.keys
        if not batch.is_plain and any(lattice.time is not None or lattice.frame_shift is not None for lattice in batch):
            return False
        return " ".join(keys).split() == keys and 4 * max(map(len, keys), default=0) <= LONGEST_KEY

    def write_all(self, batch: Batch, prepared: EncodedBatch) -> bool:
        """Append an encoded batch; return False if its lattices must be written one by one."""
        if not prepared.keys:
            return True
        first = batch[0]
        one_table = batch.is_plain or all(lattice.words is first.words for lattice in batch)
        if not one_table or ((words := self._words_for(first)) is not None and not words.fit(first)):
            return False
        self._note_written(prepared.keys)
        self._archive.write(prepared)
        self._keys.update(prepared.keys)
        if words is not None:
            words.take(first)
        return True

    def write_on_thread(self) -> None:
        """See `LatticeWriter.write_on_thread`."""
        self._archive.write_on_thread()

    def note_failure(self, key: str) -> None:
        """See `LatticeWriter.note_failure`."""
        if self._occurrences is None:
            self._occurrences = Occurrences({}, {})
        self._occurrences.fail(key, self.keys_done[key] + self._keys[key])

    def _note_written(self, keys: Sequence[str]) -> None:
        if self._occurrences is not None and self._occurrences.write(keys):
            self._write_facts()

    def _finish(self) -> None:
        self._archive.finish()
        self._remove_facts()
        self._archive.file = None

    def _abandon(self) -> None:
        is_file, is_kept = isinstance(self._archive.file, PartFile), self._is_kept()
        self._archive.abandon(keep=is_kept)
        if is_file and not is_kept:
            self._remove_facts()

    def _write_facts(self) -> None:
        """Write the run's version, command, options and sources to a file next to the archive, for resuming the run."""
        file, facts = self._archive.file, self._output.run
        if isinstance(file, PartFile) and not file.is_direct and facts is not None:
            numbers = {} if self._occurrences is None else self._occurrences.written()
            write_facts(self.name, {**facts, NUMBERS: numbers} if numbers else facts, self._output.guard)

    def _remove_facts(self) -> None:
        if self._output.run is not None and self.name != STDOUT:
            remove_facts(self.name)


class ScalesOutput:
    """Writer for the scale files of an output, which have temporary names until the output is complete.

    Args:
        places: Paths of the output files, or of the output folder.
        chosen: The scales; None removes existing scale files of the output.
        guard: Guard that protects the inputs from being replaced.
    """

    def __init__(self, places: Iterable[str], chosen: ChosenScales | None, guard: Guard | None = None) -> None:
        self._places = [place for place in places if place != os.devnull and not is_read_once(place)]
        self._chosen = chosen
        self._guard = guard
        self._parts: list[PartFile] = []
        self.path: str | None = None  # path of the first scale file, once it is written

    def begin(self) -> None:
        """Write the scale files under temporary names, replacing the temporary files from an earlier attempt."""
        for path in map(scales_path, self._places):
            if self._chosen is None:
                _remove(part_of(path))
            else:
                self._parts.append(PartFile(path, guard=self._guard))
                self._parts[-1].write(toml_text(self._chosen.values(), [_COMMENT]).encode())

    def finish(self) -> None:
        """Give the scale files their final names, once the output has its final name."""
        for part in self._parts:
            part.finish()
            self.path = self.path or part.name
        for path in map(scales_path, self._places if self._chosen is None else []):
            _remove(path)
        self._parts = []

    def abandon(self, *, keep: bool) -> None:
        """Delete the temporary scale files, or keep them for a later run that resumes the output."""
        for part in self._parts:
            part.abandon(keep=keep)
        self._parts = []


def _remove(path: str) -> None:
    if is_file(path):
        with reported(path):
            (remote.remove if is_remote(path) else os.remove)(path)


def check_key(key: str, write: Write, encoding: str) -> None:
    """Raise `LatticeError` if a format cannot store a key in this text encoding."""
    if write.key_is_field and key.split() != [key]:
        raise LatticeError(f"the key {key!r} is empty or contains whitespace; use another key", key=key)
    if 4 * len(key) > LONGEST_KEY and len(os.fsencode(key)) > LONGEST_KEY:
        raise LatticeError(f"the key is longer than {LONGEST_KEY} bytes; use a shorter key", key=key[:60])
    if write.encoded_keys:
        try:
            key.encode(encoding)
        except UnicodeEncodeError as error:
            message = f"the key cannot be encoded as {encoding.upper()}; use another key or encoding"
            raise LatticeError(message, key=key) from error
