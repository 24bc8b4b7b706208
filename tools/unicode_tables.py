#!/usr/bin/env python3
"""Writes crates/rlx-core/src/text/unicode_tables.rs.

Run from the repository's root. Uses the `unicodedata2` package where it is installed (it follows
the newest Unicode), else Python's own `unicodedata`.
"""
import pathlib
import sys

try:
    import unicodedata2 as ud
except ImportError:
    import unicodedata as ud

LAST = 0x110000
CLASSES = {"L": 1, "M": 2, "N": 3, "P": 4, "S": 5}
HANGUL = range(0xAC00, 0xD7A4)


def changes(value):
    """(start, value) wherever value(code point) changes."""
    rows, last = [], 0
    for c in range(LAST):
        v = value(c)
        if v != last:
            rows.append((c, v))
            last = v
    return rows


def letters():
    """Rows of (start, kind): 0 neither case, 1 upper or title case, 2 lower case; where they alternate
    3 even code points are upper case, 4 odd ones are."""
    kind = [{"Lu": 1, "Lt": 1, "Ll": 2}.get(ud.category(chr(c)), 0) for c in range(LAST)]
    rows, c, last = [], 0, 0
    while c < LAST:
        n = 1
        while kind[c] and c + n < LAST and kind[c + n] == 3 - kind[c + n - 1]:
            n += 1
        if n >= 4:
            row = 3 if (kind[c] == 1) == (c % 2 == 0) else 4
        else:
            row, n = kind[c], 1
        if row != last:
            rows.append((c, row))
            last = row
        c += n
    return rows


def rust(name, doc, ty, rows, per_line):
    lines = [f"/// {doc}", "#[rustfmt::skip]", f"pub(super) static {name}: [{ty}; {len(rows)}] = ["]
    for i in range(0, len(rows), per_line):
        lines.append("    " + " ".join(f"{r:#x}," for r in rows[i : i + per_line]))
    return "\n".join(lines + ["];", ""])


def main():
    classes = changes(lambda c: CLASSES.get(ud.category(chr(c))[0], 0))
    spacing = changes(lambda c: int(ud.category(chr(c)) in ("Mc", "Me")))
    controls = changes(lambda c: int(ud.category(chr(c)) in ("Cc", "Cf", "Co")))
    combining = changes(lambda c: ud.combining(chr(c)))

    decompositions, compositions = [], []
    for c in range(LAST):
        text = ud.decomposition(chr(c))
        if not text or text.startswith("<") or c in HANGUL:
            continue
        parts = [int(p, 16) for p in text.split()]
        a, b = parts if len(parts) == 2 else (parts[0], 0)
        assert len(parts) <= 2 and max(c, a, b) < 1 << 18
        # A pair composes unless Unicode excludes it: then NFC keeps the two.
        if b and ud.normalize("NFC", chr(a) + chr(b)) == chr(c):
            compositions.append((a, b, len(decompositions)))
        decompositions.append(c << 36 | a << 18 | b)
    compositions.sort()

    out = [
        f"//! Unicode {ud.unidata_version}, written by `tools/unicode_tables.py`; do not edit.",
        "",
        rust("CLASSES", "`first code point << 3 | class`: 0 other, 1 L, 2 M, 3 N, 4 P, 5 S.", "u32", [s << 3 | v for s, v in classes], 16),
        rust("CASES", "`first code point << 3 | case`: 0 none, 1 upper or title, 2 lower, 3 even upper and odd lower, 4 odd upper and even lower.", "u32", [s << 3 | v for s, v in letters()], 16),
        rust("SPACING", "`first code point << 1 | whether it is Mc or Me`, a mark that is not Mn.", "u32", [s << 1 | v for s, v in spacing], 12),
        rust("CONTROLS", "`first code point << 1 | whether it is Cc, Cf or Co`: no surrogate is a char, Cn is unassigned.", "u32", [s << 1 | v for s, v in controls], 12),
        rust("COMBINING", "`first code point << 8 | canonical combining class`.", "u32", [s << 8 | v for s, v in combining], 12),
        rust("DECOMPOSITIONS", "`code point << 36 | first << 18 | second`, second 0 for a singleton; sorted; no Hangul.", "u64", decompositions, 7),
        rust("COMPOSITIONS", "Rows of [`DECOMPOSITIONS`] that compose, sorted by (first, second).", "u16", [i for _, _, i in compositions], 16),
    ]
    pathlib.Path("crates/rlx-core/src/text/unicode_tables.rs").write_text("\n".join(out).rstrip("\n") + "\n", encoding="utf-8")
    print(f"Unicode {ud.unidata_version}: {len(classes)} class changes, {len(combining)} combining, {len(decompositions)} decompositions", file=sys.stderr)


main()
