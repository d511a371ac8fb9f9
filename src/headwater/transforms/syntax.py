"""SQL expressions as a tree: the small, safe part of SQL that filters and routers need. Text in, tree out.

Names and functions are checked by `evaluate.py`, which knows what there is; nothing is ever executed as Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from headwater.errors import Usage


@dataclass(frozen=True)
class Literal:
    """A constant; None is NULL."""

    value: str | int | Decimal | bool | None


@dataclass(frozen=True)
class Name:
    """`op`, `after.price`, `source.table`, …"""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """A function or an operator, by the operator's own name: `and`, `=`, `is null`, `lower`."""

    function: str
    arguments: tuple[Node, ...]


Node = Literal | Name | Call

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><>|!=|<=|>=|\|\||::|!~\*|!~|~\*|[-+*/%()=<>,.~])
    )""",
    re.VERBOSE,
)
_COMPARE = {"=", "<>", "!=", "<", "<=", ">", ">="}
_MATCH = {"~", "~*", "!~", "!~*"}
# Words that end an operand; a column of such a name has to be quoted.
_RESERVED = {"and", "or", "not", "is", "in", "between", "like", "ilike", "case", "when", "then", "else", "end", "as"}


def parse(text: str, where: str) -> Node:
    """The tree of an expression. Whatever does not belong raises Usage, showing where."""
    return _Parser(text, where).whole()


class _Parser:
    """Recursive descent, loosest operator first."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.tokens: list[tuple[str, str, int]] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise self._fail(place + len(text[place:]) - len(text[place:].lstrip()), "cannot be read here")
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind)))
            place = found.end()
        self.at = 0

    def whole(self) -> Node:
        if not self.tokens:
            raise Usage(f"{self.where}: the expression is empty")
        node = self._or()
        if self.at < len(self.tokens):
            raise self._fail(self.tokens[self.at][2], "is not expected here")
        return node

    def _fail(self, place: int, problem: str) -> Usage:
        shown = self.text[place : place + 20] or "the end"
        return Usage(f"{self.where}: {shown!r} {problem}", f"the expression is: {self.text}")

    # -- tokens ------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str:
        """The next token; words in lower case, so that keywords can be compared."""
        if self.at + ahead >= len(self.tokens):
            return ""
        kind, token, _ = self.tokens[self.at + ahead]
        return token.lower() if kind == "word" else token if kind == "sign" else f"\0{token}"

    def _take(self, *wanted: str) -> bool:
        """Step over a sequence of tokens if it comes next."""
        if all(self._peek(i) == word for i, word in enumerate(wanted)):
            self.at += len(wanted)
            return True
        return False

    def _need(self, *wanted: str) -> None:
        if not self._take(*wanted):
            place = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
            raise self._fail(place, f"stands where {' '.join(wanted).upper()!r} is wanted")

    # -- operators ---------------------------------------------------------------------------------

    def _or(self) -> Node:
        node = self._and()
        while self._take("or"):
            node = Call("or", (node, self._and()))
        return node

    def _and(self) -> Node:
        node = self._not()
        while self._take("and"):
            node = Call("and", (node, self._not()))
        return node

    def _not(self) -> Node:
        return Call("not", (self._not(),)) if self._take("not") else self._comparison()

    def _comparison(self) -> Node:
        node = self._sum()
        while True:
            sign = self._peek()
            if sign in _COMPARE or sign in _MATCH:
                self.at += 1
                node = Call("<>" if sign == "!=" else sign, (node, self._sum()))
            elif self._take("is"):
                node = self._is(node)
            elif sign == "not" and self._peek(1) in ("in", "like", "ilike", "between"):
                self.at += 1
                node = Call("not", (self._range(node),))
            elif sign in ("in", "like", "ilike", "between"):
                node = self._range(node)
            else:
                return node

    def _is(self, node: Node) -> Node:
        negated = self._take("not")
        if self._take("distinct", "from"):
            found = Call("is distinct", (node, self._sum()))
        elif self._take("null"):
            found = Call("is null", (node,))
        elif self._take("true"):
            found = Call("is true", (node,))
        else:
            self._need("false")
            found = Call("is false", (node,))
        return Call("not", (found,)) if negated else found

    def _range(self, node: Node) -> Node:
        if self._take("in"):
            self._need("(")
            return Call("in", (node, *self._list()))
        if self._take("between"):
            low = self._sum()
            self._need("and")
            return Call("and", (Call(">=", (node, low)), Call("<=", (node, self._sum()))))
        word = self._peek()
        self.at += 1
        return Call(word, (node, self._sum()))

    def _sum(self) -> Node:
        node = self._product()
        while (sign := self._peek()) in ("+", "-", "||"):
            self.at += 1
            node = Call(sign, (node, self._product()))
        return node

    def _product(self) -> Node:
        node = self._sign()
        while (sign := self._peek()) in ("*", "/", "%"):
            self.at += 1
            node = Call(sign, (node, self._sign()))
        return node

    def _sign(self) -> Node:
        if self._take("-"):
            node = self._sign()
            match node:
                case Literal(value=int() | Decimal() as number) if not isinstance(number, bool):
                    return Literal(-number)
            return Call("negate", (node,))
        node = self._primary()
        while self._take("::"):
            node = Call("cast", (node, Literal(self._type())))
        return node

    # -- operands ----------------------------------------------------------------------------------

    def _primary(self) -> Node:
        if self.at >= len(self.tokens):
            raise self._fail(len(self.text), "stands where a value is wanted")
        kind, token, place = self.tokens[self.at]
        self.at += 1
        match kind:
            case "number":
                whole = token.isdigit()
                return Literal(int(token) if whole and int(token) < 1 << 63 else Decimal(token))
            case "text":
                return Literal(token[1:-1].replace("''", "'"))
            case "sign" if token == "(":  # noqa: S105
                node = self._or()
                self._need(")")
                return node
            case "word" | "quoted":
                return self._word(kind, token, place)
        raise self._fail(place, "stands where a value is wanted")

    def _word(self, kind: str, token: str, place: int) -> Node:
        word = token.lower() if kind == "word" else ""
        if word in ("true", "false", "null"):
            return Literal({"true": True, "false": False, "null": None}[word])
        if word == "case":
            return self._case()
        if word == "cast" and self._take("("):
            node = self._or()
            self._need("as")
            cast = Call("cast", (node, Literal(self._type())))
            self._need(")")
            return cast
        if word in _RESERVED:
            raise self._fail(place, "stands where a value is wanted")
        if word and self._take("("):
            return Call(word, () if self._take(")") else self._list())
        parts = [_unquoted(kind, token)]
        while self._take("."):
            if self.at >= len(self.tokens) or self.tokens[self.at][0] not in ("word", "quoted"):
                raise self._fail(place, "is not a whole name")
            parts.append(_unquoted(*self.tokens[self.at][:2]))
            self.at += 1
        return Name(tuple(parts))

    def _list(self) -> tuple[Node, ...]:
        """Up to the closing bracket."""
        nodes = [self._or()]
        while self._take(","):
            nodes.append(self._or())
        self._need(")")
        return tuple(nodes)

    def _case(self) -> Node:
        subject = None if self._peek() == "when" else self._or()
        arms: list[Node] = []
        while self._take("when"):
            test = self._or()
            self._need("then")
            arms += [test if subject is None else Call("=", (subject, test)), self._or()]
        last = self._or() if self._take("else") else Literal(None)
        self._need("end")
        if not arms:
            raise self._fail(len(self.text), "has a CASE without WHEN")
        return Call("case", (*arms, last))

    def _type(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "word":
            raise self._fail(len(self.text), "stands where a type is wanted")
        name = self.tokens[self.at][1].lower()
        self.at += 1
        if not self._take("("):
            return name
        numbers = [str(node.value) for node in self._list() if isinstance(node, Literal)]
        return f"{name}({','.join(numbers)})"


def _unquoted(kind: str, token: str) -> str:
    return token[1:-1].replace('""', '"') if kind == "quoted" else token
