#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the rooms and their includes as docs/rooms.svg. Leaves out arrows that follow from two others.

    tools/draw_rooms.py           writes the picture
    tools/draw_rooms.py --check   fails if the picture in docs/ does not match the tree"""

import argparse
import sys

from rooms import ARROWS, ROOT, WHAT_IT_IS, arrows

PICTURE = ROOT / "docs/rooms.svg"
# Rows from the top, each from left to right; "" is a gap.
ROWS = (("", "cmd", ""), ("", "cluster/access", ""), ("", "", "cluster/ray"), ("", "", "cluster/up"),
        ("", "launcher/plan", ""), ("", "launcher/engine", ""), ("", "launcher/report", ""), ("", "launcher/driver", ""),
        ("agent", "launcher/job", "", "cluster/cloud"), ("collective/bench", "wire", "cluster/ssh", "cluster/file"),
        ("collective", "rendezvous", "cluster/transport", ""), ("", "base", ""))
WIDTH, BOX_WIDTH, BOX_HEIGHT, ROW = 1130, 214, 46, 84


def needed(found):
    """The arrows, without those that a path of other arrows implies."""
    below = {room: {target for (source, target) in found if source == room} for room in ARROWS}

    def reaches(source, target):
        return target in below[source] or any(reaches(via, target) for via in below[source])

    return sorted((source, target) for source, target in found
                  if not any(reaches(via, target) for via in below[source] - {target}))


def places():
    found = {}
    for row, rooms in enumerate(ROWS):
        for column, room in enumerate(rooms):
            if room:
                found[room] = (WIDTH * (2 * column + 1) // (2 * len(rooms)), 12 + row * ROW)
    return found


def drawn():
    at = places()
    assert at.keys() == ARROWS.keys(), "ROWS and the rooms differ"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(ROWS) * ROW - 6}" '
             'font-family="sans-serif" text-anchor="middle">',
             "<!-- made by tools/draw_rooms.py from the includes -->",
             '<rect width="100%" height="100%" fill="#ffffff"/>',
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
             'orient="auto"><path d="M0 0L8 4L0 8z" fill="#666666"/></marker></defs>']
    for source, target in needed(arrows()):
        (x1, y1), (x2, y2) = at[source], at[target]
        bottom, middle = y1 + BOX_HEIGHT, y1 + BOX_HEIGHT // 2
        if y2 - y1 > ROW and x1 != x2:  # leave by the side, around the boxes in between
            side = x1 + BOX_WIDTH // 2 * (1 if x2 > x1 else -1)
            path = f"M{side} {middle}Q{x2} {middle} {x2} {y2}"
        else:
            bend = (bottom + y2) // 2
            path = f"M{x1} {bottom}C{x1} {bend} {x2} {bend} {x2} {y2}"
        lines.append(f'<path d="{path}" fill="none" stroke="#666666" marker-end="url(#tip)"/>')
    for room, (x, y) in at.items():
        lines += [f'<rect x="{x - BOX_WIDTH // 2}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
                  'fill="#f3f6fa" stroke="#35507a"/>',
                  f'<text x="{x}" y="{y + 19}" font-size="15" font-weight="bold">{room}/</text>',
                  f'<text x="{x}" y="{y + 37}" font-size="12">{WHAT_IT_IS[room]}</text>']
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true")
    text = drawn()
    if parser.parse_args().check:
        if not PICTURE.exists() or PICTURE.read_text() != text:
            sys.exit("docs/rooms.svg does not match the tree: run tools/draw_rooms.py")
        print("docs/rooms.svg matches the tree")
        return
    PICTURE.write_text(text)


if __name__ == "__main__":
    main()
