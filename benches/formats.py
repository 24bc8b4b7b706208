"""Facts of formats that benches count with."""

# Weights that one index into a codebook brings.
CODEBOOKS = {
    "iq1_s": 8, "iq1_m": 8,
    "iq2_xxs": 8, "iq2_xs": 8, "iq2_s": 8,
    "iq3_xxs": 4, "iq3_s": 4,
}  # fmt: skip


def is_codebook(name):
    return name in CODEBOOKS


def lookups(name):
    """Lookups in a codebook for one weight; signs and levels that are not in memory are not counted."""
    return 1 / CODEBOOKS[name] if name in CODEBOOKS else 0
