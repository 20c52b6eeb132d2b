"""Closing a stream while another thread reads it."""

import threading

import pytest

from ninja.files.stream import Stream


class SlowFile:
    """A file whose reads return only after `may_end` is set."""

    def __init__(self):
        self.closed = False
        self.started, self.may_end = threading.Event(), threading.Event()

    def read(self, size):
        return b"ab"[:size]

    def readinto(self, buffer):
        self.started.set()
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
def test_close_waits_for_a_read_in_another_thread(use):
    file = SlowFile()
    stream = Stream(file, "slow")
    assert stream.readinto(memoryview(bytearray(2))) == 2  # the bytes that were read to detect the format
    thread = threading.Thread(target=use, args=(stream,))
    thread.start()
    assert file.started.wait(60)
    stream.close()
    assert not file.closed  # closing now could pass its descriptor to another file
    file.may_end.set()
    thread.join()
    assert file.closed


def test_an_idle_file_is_closed_immediately():
    file = SlowFile()
    Stream(file, "slow").close()
    assert file.closed
