"""Sizes and times as people read them."""


def shown_bytes(size: int) -> str:
    """Return a size with its unit.

    >>> shown_bytes(1536), shown_bytes(3 * 2**30)
    ('1.5 KiB', '3.0 GiB')
    """
    amount, units = float(size), ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    for unit in units[:-1]:
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {units[-1]}"
