"""Detection of unsupported files by their first bytes, and error messages that advise the user."""

from __future__ import annotations

import re

from ninja.files.gzip import GZIP_MAGIC

_UNPACK = "decompress it first"
_EXTRACT = "extract it first"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_MARKS = (
    (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", f"the file is compressed with bzip2; {_UNPACK} (bunzip2)"),
    (rb"\xfd7zXZ\0", f"the file is compressed with xz; {_UNPACK} (unxz)"),
    (rb"\x5d\0\0.{2}\xff{8}", f"the file is compressed with lzma; {_UNPACK} (unlzma)"),
    (rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", f"the file is compressed with zstd; {_UNPACK} (unzstd)"),
    (rb"\x04\x22\x4d\x18", f"the file is compressed with lz4; {_UNPACK} (unlz4)"),
    (rb"\x1f\x9d", f"the file is compressed with compress; {_UNPACK} (uncompress)"),
    (GZIP_MAGIC, "the file is compressed with gzip twice; decompress it once (gunzip)"),
    (rb"7z\xbc\xaf\x27\x1c", f"the file is a 7-Zip archive; {_EXTRACT} (7z x)"),
    (rb"PK\x03\x04(?!.{0,508}data\.pkl)", f"the file is a zip file that was not written by torch; {_EXTRACT} (unzip)"),
    (rb".{257}ustar", f"the file is a tar file; {_EXTRACT} (tar -xf)"),
    (
        rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.",
        "the file is in torch's old format; load it with torch and save it again with torch.save, which now writes "
        "a zip file",
    ),
    (rb"\x80[\x02-\x05].", "the file is a Python pickle, which could run arbitrary code; save it in another format"),
    (
        rb"PAR1\x15",
        "the file is in Parquet format, which cannot be memory-mapped; convert it to an Arrow file with pyarrow, "
        "feather.write_feather(parquet.read_table(FILE), 'lat.arrow', compression='uncompressed')",
    ),
)


def is_utf_16(head: bytes) -> bool:
    """Return whether a file begins with a UTF-16 byte order mark."""
    return head.startswith(_UTF_16)


def refusal(head: bytes) -> str | None:
    """Return the error message for an unsupported file, or None for any other file."""
    if is_utf_16(head):
        return "the file is UTF-16; convert it with iconv -f UTF-16 -t UTF-8"
    return next((message for mark, message in _MARKS if re.match(mark, head, re.DOTALL)), None)
