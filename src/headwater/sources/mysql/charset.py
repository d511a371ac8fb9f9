"""Character sets of the server and their names in Python. Rows events carry texts in the column's own."""

from __future__ import annotations

from headwater.errors import Stop

UTF8 = frozenset(("utf8mb4", "utf8mb3", "utf8", "ascii"))
# ASCII bytes mean ASCII letters in all of these: a text of only such bytes is UTF-8 already.
_CODEC = {
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
    "tis620": "cp874",
    "big5": "cp950",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "sjis": "shift_jis",
    "cp932": "cp932",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
}
_WIDE_CODEC = {"ucs2": "utf_16_be", "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be"}


def is_wide(charset: str) -> bool:
    """Whether ASCII letters take more than a byte."""
    return charset in _WIDE_CODEC


def decode_text(raw: bytes, charset: str) -> str:
    """A text in one of the server's character sets. UnicodeDecodeError when it is not one."""
    if charset in UTF8:
        return raw.decode()
    codec = _CODEC.get(charset) or _WIDE_CODEC.get(charset)
    if codec is None:
        raise Stop(
            f"texts in the character set {charset!r} are not read yet",
            "alter table … convert to character set utf8mb4;",
            "or leave the table out: source.exclude",
        )
    if charset == "latin1":
        # The server's latin1 is cp1252 with its five holes filled.
        return raw.decode("cp1252", "latin1_holes")
    return raw.decode(codec)


def _fill_holes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin1"), error.end


def _register() -> None:
    import codecs

    codecs.register_error("latin1_holes", _fill_holes)


_register()
