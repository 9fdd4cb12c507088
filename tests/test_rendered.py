"""What the pages say is what the commands wrote."""

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_tables_of_claims_are_rendered_from_the_kept_results(monkeypatch):
    script = str(ROOT / "scripts/render_studies.py")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    runpy.run_path(script, run_name="__main__")  # leaves with the sentence where one is not


def test_every_link_of_the_pages_leads_somewhere():
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        text = page.read_text(encoding="utf-8")
        for link, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
            if "://" not in link:
                target = page.parent / link if link else page
                assert target.exists(), f"{page.name} links to {link}"
                assert not heading or heading in headings_of(target), f"{page.name}: #{heading}"


def headings_of(page):
    """Return the names by which links find the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
