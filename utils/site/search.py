"""The search index, as a script: a page opened from a disk may load a script, but may not fetch a file."""

import json
from pathlib import Path


def records(texts: list[tuple[str, str, tuple]]) -> dict:
    """{"pages": [[address, title], …], "texts": [[page's place, anchor, kind, title, words], …]} of all pages."""
    return {
        "pages": [[page, title] for page, title, _ in texts],
        "texts": [[place, *record] for place, (_, _, found) in enumerate(texts) for record in found],
    }


def write(path: Path, texts: list[tuple[str, str, tuple]]) -> None:
    """Write the script that hands the records to site.js."""
    data = json.dumps(records(texts), ensure_ascii=False, separators=(",", ":"))
    path.write_text(f"window.COURSE = {data};\n".replace("\u2028", " ").replace("\u2029", " "), encoding="utf-8")
