"""Commands that end in the midst of their work."""

import contextlib

import ninja


@contextlib.contextmanager
def ended_at(number, monkeypatch):
    """Interrupt commands as they write their lattice of this number, counted from 1."""
    write = ninja.io.lattice_writer.LatticeWriter.write
    seen = []

    def put(self, item, **how):
        seen.append(item.key)
        if len(seen) == number:
            raise KeyboardInterrupt
        write(self, item, **how)

    with monkeypatch.context() as patch:
        patch.setattr("ninja.io.lattice_writer.LatticeWriter.write", put)
        patch.setattr("ninja.io.kaldi_writer.KaldiWriter.prepared", lambda self, batch: None)  # one by one
        yield
