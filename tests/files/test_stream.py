"""A stream that is closed while another thread reads it."""

import threading

import pytest

from ninja.files.stream import Stream


class SlowFile:
    """A file whose reads end when `may_end` is set."""

    def __init__(self):
        self.closed = False
        self.begun, self.may_end = threading.Event(), threading.Event()

    def read(self, size):
        return b"ab"[:size]

    def readinto(self, buffer):
        self.begun.set()
        assert self.may_end.wait(60)
        assert not self.closed
        buffer[:1] = b"c"
        return 1

    def seek(self, offset):
        self.readinto(bytearray(1))

    def fileno(self):
        return 0

    def close(self):
        self.closed = True


def read(stream):
    stream.readinto(memoryview(bytearray(2)))


def seek(stream):
    stream.seek(0)


@pytest.mark.parametrize("use", [read, seek])
def test_a_file_is_closed_after_the_read_of_another_thread(use):
    file = SlowFile()
    stream = Stream(file, "slow")
    assert stream.readinto(memoryview(bytearray(2))) == 2  # bytes that were read for detection
    thread = threading.Thread(target=use, args=(stream,))
    thread.start()
    assert file.begun.wait(60)
    stream.close()
    assert not file.closed  # its descriptor could be given to another file
    file.may_end.set()
    thread.join()
    assert file.closed


def test_a_file_that_is_not_read_is_closed_at_once():
    file = SlowFile()
    Stream(file, "slow").close()
    assert file.closed
