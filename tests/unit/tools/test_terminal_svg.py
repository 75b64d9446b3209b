"""A terminal as a picture: colours, columns and odd characters survive."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tools.terminal_svg import ADVANCE, COLOURS, DIM, MARGIN, draw

SVG = "{http://www.w3.org/2000/svg}"


def pieces(text: str, columns: int = 40) -> list[ET.Element]:
    tree = ET.fromstring(draw(text, columns=columns, title="a title"))  # noqa: S314  (it is our own)
    return tree.findall(f"{SVG}text")[1:]


def test_pieces_have_their_colour_and_their_column() -> None:
    fail, plain, dim = pieces("\x1b[1;31mfail\x1b[0m  mtu \x1b[2mok\x1b[0m   ")
    assert (fail.text, fail.get("fill"), fail.get("font-weight")) == ("fail", COLOURS[1], "bold")
    assert (plain.text, plain.get("fill"), float(plain.get("x", 0))) == ("mtu", None, MARGIN + 6 * ADVANCE)
    assert (dim.text, dim.get("fill")) == ("ok", DIM)


def test_markup_is_text_and_long_lines_wrap() -> None:
    first, second = pieces("a <b> & c" + " " + "x" * 35)
    assert first.text == "a <b> & c"
    assert float(second.get("y", 0)) > float(first.get("y", 0))


def test_the_same_text_gives_the_same_picture() -> None:
    assert draw("\x1b[36mx", columns=20, title="t") == draw("\x1b[36mx", columns=20, title="t")
