"""Commands that end while they are working, and calls in forked processes."""

import contextlib
import os
import signal

import ninja


@contextlib.contextmanager
def interrupt_at(number, monkeypatch):
    """Interrupt commands when they write the lattice of this number, counted from 1."""
    write = ninja.io.writer.LatticeWriter.write
    keys = []

    def write_or_interrupt(self, item, **options):
        keys.append(item.key)
        if len(keys) == number:
            raise KeyboardInterrupt
        write(self, item, **options)

    with monkeypatch.context() as patch:
        patch.setattr("ninja.io.writer.LatticeWriter.write", write_or_interrupt)
        patch.setattr("ninja.io.writer.KaldiWriter.prepared", lambda self, batch: None)  # one by one
        yield


def forked_exit_code(call):
    """Return the exit code of a forked process: 0 if the call returns; SIGALRM if it takes more than ten seconds."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(10)
            call()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
