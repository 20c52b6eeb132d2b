"""What must be said of n-best lists whose files leave it open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ninja.errors import InputError, OptionError
from ninja.formats.content import Content
from ninja.formats.nbest import NBest, each_nemo, manifest_keys, read_espnet_folder, read_nemo
from ninja.formats.textual import check_encoding

ScoreAs = Literal["acoustic", "graph"]


@dataclass(frozen=True, slots=True)
class NemoOptions:
    """How the beams of NeMo are understood: the file does not say where an utterance ends."""

    manifest: str | None = None  # file that names the utterances in their order
    field: str = "audio_filepath"  # of the manifest, that names the utterance
    beam: int | None = None  # lines of each utterance, where there is no manifest
    score_as: ScoreAs = "acoustic"  # which cost the score becomes
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def lists(self, content: Content) -> Iterable[NBest]:
        """Read the lists of a file.

        Raises:
            FormatError: The file, or the manifest, is not what it should be.
            OptionError: Neither a manifest nor a beam is given.
        """
        path = content.name
        if self.manifest is None and self.beam is None:
            message = "NeMo's files do not say where an utterance ends; give --from nemo:manifest=FILE or nemo:beam=N"
            raise OptionError(f"{path}: {message}")
        keys = None
        if self.manifest is not None:
            try:
                with open(self.manifest, "rb") as file:
                    keys = manifest_keys(file.read(), self.field, self.manifest)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", self.manifest) from error
        again = content.readings()
        lines = sum(block.count(b"\n") + (not block.endswith(b"\n")) for block in again() if block)
        beam = self.beam
        if lines and beam is None and keys:
            beam = lines // len(keys)
        if keys is None and beam and beam > 0:
            count = -(-lines // beam)
            keys = [content.key] if count == 1 else [content.numbered(number) for number in range(1, count + 1)]
        if lines and beam and beam > 0 and keys is not None and lines == beam * len(keys):
            return each_nemo(again(), keys, beam, path, score_as=self.score_as, encoding=self.encoding)
        return read_nemo(content.whole(), keys, self.beam, path, score_as=self.score_as, encoding=self.encoding)


@dataclass(frozen=True, slots=True)
class EspnetOptions:
    """How ESPnet's folders are understood."""

    units: Literal["text", "token"] = "text"  # file of which the words are taken
    score_as: ScoreAs = "acoustic"  # which cost the score becomes
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def lists(self, folder: str) -> list[NBest]:
        """Read the lists of a folder.

        Raises:
            FormatError: A file is not what it should be.
        """
        return read_espnet_folder(folder, self.units, score_as=self.score_as, encoding=self.encoding)
