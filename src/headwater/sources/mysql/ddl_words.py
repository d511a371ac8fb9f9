"""A statement's words, one behind the other: what every part of the grammar stands on. No I/O.

sqlglot's MySQL tokenizer knows quotes, escapes and comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from headwater.sources.mysql.ddl import Name, Unreadable

# Bits of sql_mode that change how a text is read.
ANSI_QUOTES = 1 << 2
NO_BACKSLASH_ESCAPES = 1 << 20


@dataclass(frozen=True)
class Word:
    """One word, string, number or sign."""

    # What it says, without quotes.
    text: str
    # In upper case; empty when it was quoted, so that nothing quoted is taken for a keyword.
    keyword: str = ""
    quoted: bool = False
    string: bool = False
    number: bool = False
    # As the statement has it.
    source: str = ""


# Strings and names are passed over; what is left are comments, and of those the ones with an exclamation mark.
_COMMENT = re.compile(
    r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|(?:--\s|\#)[^\n]*|/\*(?!M?!).*?\*/)"""
    r"""|/\*(M?)!(\d{5,6})?(.*?)\*/""",
    re.DOTALL,
)


def executed(text: str, version: int, mariadb: bool) -> str:
    """The statement with the comments that this server executes, and without those it does not."""

    def decide(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        wanted = int(found[3] or 0)
        runs = wanted <= version and (mariadb or not found[2])
        if mariadb and not found[2] and 50700 <= wanted < 100000:
            # Versions that MySQL has and MariaDB never had.
            runs = False
        return f" {found[4]} " if runs else " "

    return _COMMENT.sub(decide, text)


@cache
def _tokenizer(ansi_quotes: bool, plain_backslash: bool) -> Any:
    # Half a second of imports, that only logs with definitions to follow need.
    from sqlglot.dialects.mysql import MySQL

    class Words(MySQL.Tokenizer):
        # A statement that begins with one of these would come as one token.
        COMMANDS: ClassVar[set[Any]] = set()
        QUOTES = ["'"] if ansi_quotes else ["'", '"']
        IDENTIFIERS = ["`", '"'] if ansi_quotes else ["`"]
        STRING_ESCAPES = ["'"] if plain_backslash else ["'", '"', "\\"]

    return Words


def words_of(text: str, sql_mode: int) -> list[Word]:
    """The words of a text, under a session's modes."""
    tokenizer = _tokenizer(bool(sql_mode & ANSI_QUOTES), bool(sql_mode & NO_BACKSLASH_ESCAPES))
    from sqlglot.errors import SqlglotError

    try:
        tokens = tokenizer(dialect="mysql").tokenize(text)
    except SqlglotError as error:
        raise Unreadable(str(error).partition("\n")[0][:80], ()) from error
    words = []
    for token in tokens:
        source = text[token.start : token.end + 1]
        match token.token_type.name:
            case "IDENTIFIER":
                words.append(Word(token.text, quoted=True, source=source))
            case "STRING" | "NATIONAL_STRING":
                words.append(Word(token.text, string=True, source=source))
            case "NUMBER" | "BIT_STRING" | "HEX_STRING":
                words.append(Word(token.text, number=True, source=source))
            case _:
                # Some keywords come in one token: PRIMARY KEY.
                words += [Word(word, word.upper(), source=word) for word in source.split()]
    return words


END = Word("")


@dataclass
class Cursor:
    """A place among the words, and how it moves."""

    words: list[Word]
    at: int = 0
    # Tables named so far, for whoever asks what an unreadable statement touches.
    names: list[Name] = field(default_factory=list)

    @property
    def here(self) -> Word:
        return self.words[self.at] if self.at < len(self.words) else END

    def sees(self, *keywords: str) -> bool:
        """Whether these come next, one behind the other."""
        return [word.keyword for word in self.words[self.at : self.at + len(keywords)]] == list(keywords)

    def takes(self, *keywords: str) -> bool:
        if self.sees(*keywords):
            self.at += len(keywords)
            return True
        return False

    def one_of(self, *keywords: str) -> str:
        """The next word if it is one of these, else nothing."""
        keyword = self.here.keyword
        if keyword and keyword in keywords:
            self.at += 1
            return keyword
        return ""

    def need(self, *keywords: str) -> None:
        if not self.takes(*keywords):
            raise self.unreadable()

    def next(self) -> Word:
        word = self.here
        if word is END:
            raise self.unreadable()
        self.at += 1
        return word

    def unreadable(self) -> Unreadable:
        near = " ".join(word.source for word in self.words[self.at : self.at + 5]) or "its end"
        return Unreadable(near, tuple(self.names))

    @property
    def ended(self) -> bool:
        return self.here is END or self.here.keyword == ";"

    def name(self) -> str:
        word = self.next()
        if word.string or word.number or not re.search(r"\w", word.text):
            raise self.unreadable()
        return word.text

    def string(self) -> str:
        word = self.next()
        if not word.string:
            raise self.unreadable()
        return word.text

    def table(self) -> Name:
        first = self.name()
        name = (first, self.name()) if self.takes(".") else ("", first)
        self.names.append(name)
        return name

    def names_in_parentheses(self) -> tuple[str, ...]:
        """`(a, b(10) desc)`: the columns of a key."""
        self.need("(")
        found = []
        while True:
            found.append(self.name())
            if self.sees("("):
                self.group()
            self.one_of("ASC", "DESC")
            if self.takes(")"):
                return tuple(found)
            self.need(",")

    def group(self) -> str:
        """Everything from one parenthesis to its partner."""
        self.need("(")
        begin, depth = self.at, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self.next().keyword, 0)
        return " ".join(word.source for word in self.words[begin : self.at - 1])

    def pass_part(self) -> None:
        """Up to the comma or parenthesis that ends this part of a list."""
        while not self.ended and self.here.keyword not in (",", ")"):
            if self.sees("("):
                self.group()
            else:
                self.at += 1
