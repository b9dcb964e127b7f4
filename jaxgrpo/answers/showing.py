"""Trees as text for people."""

from jaxgrpo.answers.tree import (
    Based,
    Bracketed,
    Call,
    Combined,
    Listing,
    Matrix,
    Measured,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Ratio,
    Relation,
    Sum,
    Symbol,
)


def show(node: Node) -> str:
    r"""A tree as one line that says how a text was understood.

    Example:
      >>> from jaxgrpo.answers.reading import readings
      >>> [show(tree) for tree in readings(r"1,234\text{ cm}")]
      ['1234 [centimeter]', 'list(1, 234 [centimeter])']
    """
    match node:
        case Number(value):
            return str(value)
        case Symbol(name):
            return name
        case Sum(parts):
            return f"({' + '.join(map(show, parts))})"
        case Product(parts):
            return " * ".join(map(show, parts))
        case Power(base, exponent):
            return f"{show(base)}^({show(exponent)})"
        case Call(name, parts):
            return f"{name}({', '.join(map(show, parts))})"
        case PlusMinus(term, sign):
            return f"{'+-' if sign > 0 else '-+'}{show(term)}"
        case Bracketed(opening, closing, parts):
            return f"{opening}{', '.join(map(show, parts))}{closing}"
        case Listing(parts, braced):
            return f"{'set' if braced else 'list'}({', '.join(map(show, parts))})"
        case Combined(operator, parts):
            return f" {operator} ".join(map(show, parts))
        case Relation(terms, operators):
            words = [show(terms[0])]
            for operator, term in zip(operators, terms[1:], strict=True):
                words += [operator.lstrip("\\"), show(term)]
            return " ".join(words)
        case Ratio(parts):
            return " : ".join(map(show, parts))
        case Matrix(kind, rows):
            inner = "; ".join(", ".join(map(show, row)) for row in rows)
            return f"{'determinant' if kind else 'matrix'}[{inner}]"
        case Measured(value, unit):
            return f"{show(value)} [{unit}]"
        case Based(digits, base):
            return f"{digits} in base {base}"
    raise TypeError(f"no node of a tree: {type(node).__name__}")
