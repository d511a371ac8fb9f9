"""How a column is defined: its type, and everything that may stand behind it. No I/O."""

from __future__ import annotations

from dataclasses import replace

from headwater.sources.mysql.ddl import Charset, ColumnText
from headwater.sources.mysql.ddl_words import Cursor

_TWO_WORD_TYPES = {
    ("double", "precision"): "double",
    ("char", "varying"): "varchar",
    ("character", "varying"): "varchar",
    ("char", "byte"): "binary",
    ("national", "char"): "nchar",
    ("national", "character"): "nchar",
    ("national", "varchar"): "nvarchar",
    ("nchar", "varying"): "nvarchar",
    ("nchar", "varchar"): "nvarchar",
    ("nvarchar", "varying"): "nvarchar",
    ("long", "varchar"): "mediumtext",
    ("long", "varbinary"): "mediumblob",
    ("long", "varying"): "mediumtext",
    ("long", "char"): "mediumtext",
}


class Columns(Cursor):
    """The part of the grammar that reads columns."""

    def column(self) -> ColumnText:
        found = ColumnText(self.name(), self.type())
        if found.type in ("enum", "set"):
            self.need("(")
            labels = [self.string()]
            while self.takes(","):
                labels.append(self.string())
            self.need(")")
            # The server takes spaces off the ends of labels.
            found = replace(found, labels=tuple(label.rstrip(" ") for label in labels))
        elif self.takes("("):
            sizes = [self.size()]
            while self.takes(","):
                sizes.append(self.size())
            self.need(")")
            found = replace(found, sizes=tuple(sizes))
        while not self.ended and self.here.keyword not in (",", ")", "PARTITION", "REMOVE"):
            found = self.attribute(found)
        return found

    def type(self) -> str:
        first = self.name().lower()
        joined = _TWO_WORD_TYPES.get((first, self.here.keyword.lower()))
        if joined is None:
            return "mediumtext" if first == "long" else first
        self.at += 1
        if joined in ("nchar", "binary") and self.takes("VARYING"):
            return "nvarchar"
        return joined

    def size(self) -> int:
        word = self.next()
        if not word.number or not word.text.isdigit():
            raise self.unreadable()
        return int(word.text)

    def attribute(self, found: ColumnText) -> ColumnText:
        """One thing more that is said of a column."""
        if charset := self.charset():
            return replace(found, charset=found.charset.also(charset))
        match self.next().keyword:
            case "UNSIGNED" | "ZEROFILL":
                return replace(found, unsigned=True)
            case "AUTO_INCREMENT":
                return replace(found, auto_increment=True)
            case "SIGNED" | "VIRTUAL" | "STORED" | "PERSISTENT" | "VISIBLE" | "INVISIBLE" | "BINARY":
                return found
            case "ASCII":
                return replace(found, charset=Charset("latin1"))
            case "UNICODE":
                return replace(found, charset=Charset("ucs2"))
            case "NOT":
                if self.takes("ENFORCED"):
                    return found
                self.need("NULL")
                return replace(found, nullable=False)
            case "NULL":
                return replace(found, nullable=True)
            case "DEFAULT":
                return replace(found, default=self.default())
            case "ON":
                self.need("UPDATE")
                self.default()
                return found
            case "UNIQUE":
                self.takes("KEY")
                return found
            case "PRIMARY":
                self.takes("KEY")
                return replace(found, primary=True)
            case "KEY":
                return replace(found, primary=True)
            case "COMMENT":
                return replace(found, comment=self.string())
            case "GENERATED":
                self.need("ALWAYS")
                return found
            case "AS":
                if self.one_of("ROW"):
                    raise self.unreadable()
                self.group()
                return replace(found, generated=True)
            case "CHECK":
                self.group()
                return found
            case "CONSTRAINT":
                if not self.sees("CHECK"):
                    self.name()
                return found
            case "REFERENCES":
                self.references()
                return found
            case "COLUMN_FORMAT" | "STORAGE":
                self.next()
                return found
            case "SRID" | "REF_SYSTEM_ID" | "ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE":
                self.takes("=")
                self.next()
                return found
            case "SERIAL":
                self.need("DEFAULT", "VALUE")
                return replace(found, nullable=False, auto_increment=True)
            case "WITH" | "WITHOUT":
                self.need("SYSTEM", "VERSIONING")
                return found
            case "FIRST":
                return replace(found, after="")
            case "AFTER":
                return replace(found, after=self.name())
        self.at -= 1
        raise self.unreadable()

    def references(self) -> None:
        self.table()
        self.names.pop()
        if self.sees("("):
            self.group()
        if self.takes("MATCH"):
            self.next()
        while self.sees("ON", "DELETE") or self.sees("ON", "UPDATE"):
            self.at += 2
            if not (self.takes("SET", "NULL") or self.takes("SET", "DEFAULT") or self.takes("NO", "ACTION")):
                self.next()

    def default(self) -> str | None:
        """A default's text, a string in plain quotes; None for NULL."""
        if self.takes("NULL"):
            return None
        if self.sees("("):
            return f"({self.group()})"
        sign = self.one_of("-", "+")
        if self.takes("."):
            sign += "."
        if self.here.keyword.startswith("_"):
            self.at += 1
        word = self.next()
        text = sign + word.source
        if word.string:
            text = "'" + word.text.replace("'", "''") + "'"
        if self.takes("NEXT", "VALUE", "FOR") or (word.keyword == "NEXT" and self.takes("VALUE", "FOR")):
            self.table()
            self.names.pop()
        elif self.sees("("):
            inner = self.group()
            text += f"({inner})"
        return text

    def charset(self) -> Charset:
        """`[default] character set [=] x` or `collate [=] x`; nothing moves when neither comes."""
        begin = self.at
        self.takes("DEFAULT")
        kind = ""
        if self.takes("CHARACTER", "SET") or self.takes("CHAR", "SET") or self.takes("CHARSET"):
            kind = "charset"
        elif self.takes("COLLATE"):
            kind = "collation"
        if not kind:
            self.at = begin
            return Charset()
        self.takes("=")
        word = self.next()
        text = word.text.lower()
        if kind == "charset":
            return Charset() if word.keyword == "DEFAULT" else Charset(text)
        return Charset(collation=text)
