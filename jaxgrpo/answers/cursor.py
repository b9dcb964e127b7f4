"""A cursor over tokens, with what TeX reads without knowing what it means."""

from jaxgrpo.answers.tokens import Token
from jaxgrpo.answers.tree import UnreadableError

_END = Token("end", "", False)
_MAX_PIECES = 40


class Cursor:
    """Tokens and a position in them."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes `ahead` tokens later, an end token behind the last."""
        at = self.position + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    def take(self) -> Token:
        """The next token, consumed."""
        token = self.peek()
        self.position += 1
        return token

    def ahead(self, *texts: str) -> bool:
        """Whether these come next, in this order."""
        return all(self.peek(place).text == text for place, text in enumerate(texts))

    def accept(self, *texts: str) -> bool:
        """Consume the next token if it is one of these signs or commands."""
        token = self.peek()
        if token.text in texts and token.kind in ("sign", "command"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume this sign or fail."""
        if not self.accept(text):
            raise UnreadableError

    def raw_group(self) -> str:
        """A subscript as text."""
        token = self.take()
        if token.text != "{":
            if token.kind in ("number", "letters", "command", "text"):
                if token.kind in ("number", "letters") and len(token.text) > 1:
                    self.put_back(token)
                    return token.text[0]
                return token.text
            raise UnreadableError
        depth, pieces = 1, []
        while depth:
            token = self.take()
            if token is _END or len(pieces) > _MAX_PIECES:
                raise UnreadableError
            depth += (token.text == "{") - (token.text == "}")
            pieces.append(token.text)
        return "".join(pieces[:-1])

    def put_back(self, token: Token) -> None:
        """Leave all but the first character of the token just taken, as TeX does."""
        if token.kind == "number" and token.text[1] in "eE":
            raise UnreadableError
        self.position -= 1
        self.tokens[self.position] = Token(token.kind, token.text[1:], False)
