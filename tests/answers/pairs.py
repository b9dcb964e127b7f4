"""Golds with answers that are right and answers that are wrong, by what they are about."""

import json
import pathlib

# kind: [(gold, right answers, wrong answers)]
PAIRS = {
    "integers": [
        ("42", ["42", "42.0", "+42", r"\mathbf{42}", "{42}", "40+2", "84/2"], ["43", "420", "4 2"]),
        ("1024", ["2^{10}", "2**10", "1,024", r"1{,}024"], ["2^{11}", "1,02,4", "(1, 024)"]),
        ("-8", ["-8", "\N{MINUS SIGN}8", r"\frac{-16}{2}"], ["8", "- 8 8"]),
    ],
    "fractions": [
        ("3/4", [r"\frac34", r"\dfrac{3}{4}", "0.75", "75/100", r"\frac{3}{4}"], ["4/3", "0.7"]),
        ("5/2", [r"2\frac12", "2 1/2", "2.5", r"\frac{5}2"], [r"2\cdot\frac12", "21/2"]),
        (r"\frac{1}{3}", [r"0.\overline{3}", "0.3333333333"], ["0.33", "0.333", "33%"]),
    ],
    "roots and constants": [
        (r"2\sqrt{3}", [r"\sqrt{12}", r"\sqrt3\cdot 2", r"\frac{6}{\sqrt{3}}"], [r"\sqrt[3]{12}"]),
        (r"\pi/6", [r"\frac{\pi}{6}", "pi/6", r"\arcsin\frac12"], ["0.52", r"\pi", "30"]),
        ("e^2-1", [r"(e-1)(e+1)", "exp(2)-1"], ["e^2", "6.389"]),
        (r"\log_3 9", ["2", r"\frac{\ln 9}{\ln 3}"], ["3"]),
        ("0", [r"\sin\pi", r"\sqrt{2}-\frac{2}{\sqrt{2}}"], ["10^{-30}", r"e^{-100}"]),
    ],
    "algebra": [
        ("x^2-1", ["(x-1)(x+1)", "-1+x^2", "x*x-1"], ["x^2+1", "1-x^2", "y^2-1", "-1"]),
        (r"\sin 2x", [r"2\sin x\cos x", r"\sin(2x)"], [r"\sin^2 x", r"2\sin x"]),
        (r"\frac{1}{1+e^{-t}}", [r"\frac{e^t}{1+e^t}"], [r"\frac{e^t}{1-e^t}"]),
        ("|x|", [r"\sqrt{x^2}"], ["x"]),
        (r"\binom{n}{2}", ["n(n-1)/2"], ["n^2/2"]),
        (r"\lfloor x\rfloor", [r"\left\lfloor x \right\rfloor"], ["x", r"\lceil x\rceil"]),
    ],
    "equations": [
        ("x=3", ["3", "3=x", r"x = 1+2 = 3"], ["y=3", "x=4", "x", "3x"]),
        ("y=2x+1", ["2x+1", "y-2x=1", "2y=4x+2"], ["y=2x", "0=0", "1"]),
        ("x<2", ["2>x", "-x>-2", r"(-\infty, 2)"], [r"x\le 2", "x>2", "2"]),
        ("1<x<3", ["3>x>1", "(1,3)"], [r"1\le x<3", "(3,1)", "1,3"]),
    ],
    "structures": [
        ("(1,2)", ["(1, 2)", r"\left(1,\frac{4}{2}\right)"], ["(2,1)", "[1,2]", "1,2"]),
        ("1,2,3", ["3,2,1", r"\{1,2,3\}", r"1, 2 \text{ and } 3"], ["1,2", "1,2,3,4", "123"]),
        (r"2\pm\sqrt3", [r"2+\sqrt3, 2-\sqrt3"], [r"2+\sqrt3", r"3\pm\sqrt2"]),
        (
            r"(-\infty,1)\cup(1,\infty)",
            [r"\mathbb{R}\setminus\{1\}", r"x\neq 1"],
            [r"\mathbb{R}", r"(-\infty,1]\cup(1,\infty)"],
        ),
        (
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
            [r"\begin{bmatrix}1&2\\3&\frac82\end{bmatrix}"],
            [r"\begin{pmatrix}1&3\\2&4\end{pmatrix}", r"\begin{vmatrix}1&2\\3&4\end{vmatrix}"],
        ),
        (r"\emptyset", [r"\{\}", r"\varnothing"], ["0", r"\{0\}"]),
        ("3:4", ["3:4", r"3\text{ to }4"], ["4:3", "3/4:2"]),
    ],
    "units": [
        (r"5\text{ cm}^2", ["5", r"5\text{ sq cm}", "5 cm^2"], [r"5\text{ cm}", "25"]),
        ("12", [r"12\text{ apples}", "12 students", r"\$12"], [r"12\text{ cents}", "12x"]),
        (r"30^\circ", ["30", r"30\text{ degrees}", r"\frac{\pi}{6}"], [r"30\text{ radians}"]),
        (r"25^\circ C", ["25", r"25^\circ\mathrm{C}"], [r"25^\circ F", r"25\pi"]),
        (r"40\%", ["0.4", r"40\text{ percent}", "40"], ["4", r"0.4\%"]),
        ("1500000", [r"1.5\text{ million}", r"1.5\times10^6"], [r"1.5\text{ billion}", "1.5"]),
        (r"\$3.50", ["3.5", "3.50"], ["350", r"\$3.05"]),
    ],
    "complex numbers": [
        ("1+2i", ["2i+1", r"1+2\mathrm{i}"], ["1-2i", "3i", "3"]),
        (r"1+\sqrt3 i", [r"2e^{i\pi/3}"], [r"2e^{-i\pi/3}"]),
    ],
    "bases and times": [
        ("101_2", ["101_{2}", "(101)_2"], ["101_3", "1012", "110_2"]),
        ("2:30", ["2:30", "02:30"], ["2:03", "3:20", "1:15"]),
    ],
    "words": [
        (r"\text{Monday}", ["Monday", "monday", r"\textbf{Monday}"], ["Tuesday", "not Monday"]),
        ("an ellipse", ["ellipse", "the ellipse"], ["a parabola", "ellipsoid"]),
        (r"\text{(C)}", ["C", "(C)", r"\text{C}", "C. 12"], ["c^2", "A, C", "CC"]),
        ("(B) 15", ["B", "15", "(B)", "(B) 15"], ["A", "16", "(A) 15"]),
        ("yes", ["Yes", r"\text{yes}"], ["no", "yes and no"]),
    ],
}
# More of them, a line each.
_LINES = pathlib.Path(__file__).parent / "fixtures" / "pairs.jsonl"
MORE = [json.loads(line) for line in _LINES.read_text(encoding="utf-8").splitlines()]
RIGHT = [(gold, a) for rows in PAIRS.values() for gold, rights, _ in rows for a in rights]
RIGHT += [(row["gold"], row["answer"]) for row in MORE if row["same"]]
WRONG = [(gold, a) for rows in PAIRS.values() for gold, _, wrongs in rows for a in wrongs]
WRONG += [(row["gold"], row["answer"]) for row in MORE if not row["same"]]
GOLDS = [gold for rows in PAIRS.values() for gold, *_ in rows]
