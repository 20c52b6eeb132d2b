"""Encoder that rewrites files of its format, or writes n-best lists from other formats to a new file."""

from __future__ import annotations

from ninja.errors import OutputError
from ninja.formats.format import FIELDS, Encoder
from ninja.formats.hypotheses.document import DocumentEncoder
from ninja.lattice.nbest import NBest

TIMES_OF_WORDS = "word times"  # listed in messages about lost fields


class MixedEncoder:
    """Encoder that rewrites documents or writes a new file, depending on the origin of the first list.

    Args:
        form: Name of the format.
        documents: Encoder for lists from files in this format.
        others: Encoder for all other lists.
    """

    def __init__(self, form: str, documents: DocumentEncoder, others: Encoder) -> None:
        self._form = form
        self._documents = documents
        self._others = others
        self._is_document: bool | None = None

    def add(self, nbest: NBest) -> bytes:
        """Encode an n-best list; return the next bytes of the file.

        Raises:
            OutputError: The file would contain both lists from files in this format and lists from other files.
        """
        is_document = is_of(nbest, self._form)
        if self._is_document not in (None, is_document):
            message = f"lists from {self._form} files and other lists cannot be joined; write them to separate files"
            raise OutputError(message, key=nbest.key)
        content = self._documents.add(nbest) if is_document else self._others.add(nbest)
        self._is_document = is_document
        return content

    def end(self) -> bytes:
        """Return the last bytes of the file."""
        if self._is_document is None:  # nothing was added: all utterances had errors, or there are none
            return self._documents.end() or self._others.end()
        return self._documents.end() if self._is_document else self._others.end()

    def notes(self) -> list[str]:
        """Return messages about utterances that were not changed and about corrections that were not applied."""
        return [] if self._is_document is False else self._documents.notes()


def lost_others(nbest: NBest, form: str, *stored: str) -> list[str]:
    """Return a message about lost data if an n-best list from another format has fields that the output does not store.

    Args:
        nbest: The list.
        form: Name of the output format.
        stored: Names of the fields that the output stores.
    """
    has_others = nbest.record is not None and nbest.record.others.difference(stored)
    return [FIELDS["fields"]] if has_others and not is_of(nbest, form) else []


def is_of(nbest: NBest, form: str) -> bool:
    """Return whether a list was read from a rewritable file in the format `form`."""
    origin = None if nbest.record is None else nbest.record.origin
    return origin is not None and origin.document is not None and origin.document.format == form
