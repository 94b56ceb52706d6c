"""Standalone pictures are well-formed and say what they show."""

from xml.etree import ElementTree

import numpy as np

from oryx_marl.report import figure

SVG = "{http://www.w3.org/2000/svg}"


def test_lines() -> None:
    x = np.array([0.0, 10.0])
    text = figure.lines("curves <1>", "steps", "success", {"a & b": (x, np.array([0.0, 1.0]))})
    root = ElementTree.fromstring(text)
    (line,) = root.iter(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    # from the bottom left to the top right of the drawing
    assert points == [
        (figure.LEFT, figure.HEIGHT - figure.BOTTOM),
        (figure.WIDTH - figure.RIGHT, figure.TOP),
    ]
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"curves <1>", "steps", "success", "a & b"} <= set(texts)


def test_bars() -> None:
    root = ElementTree.fromstring(figure.bars("returns", "return", "episodes", {"0": 5, "1": 10}))
    frame, first, second = root.iter(f"{SVG}rect")
    assert frame.attrib["width"] == str(figure.WIDTH)
    assert float(second.attrib["height"]) == 2 * float(first.attrib["height"])
