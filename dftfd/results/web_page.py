"""What all pages for the browser share: colours for light and dark, their style, the frame of the file.

A page is one file: nothing is loaded from elsewhere.
"""

from html import escape

PALETTE = """
:root { --ink: #1e2530; --soft: #5b6675; --paper: #fff; --card: #f6f7f9; --grid: #dfe3e8; --accent: #2f6fb3; --alarm: #a00; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #a2adbb; --paper: #14181e; --card: #1c222a; --grid: #323a45; --accent: #6fa8e0; --alarm: #ff8a80; } }
* { box-sizing: border-box }
"""  # noqa: E501

STYLE = f"""{PALETTE}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--paper) }}
main {{ max-width: 76rem; margin: auto; padding: 1rem }}
h1 {{ font-size: 1.4rem; margin: .5rem 0 }} h2 {{ font-size: 1.1rem; margin: .8rem 0 .3rem }} p {{ margin: .4rem 0 }}
.columns {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1rem }}
.columns > * {{ min-width: 0 }}
section {{ background: var(--card); border-radius: .5rem; padding: .8rem }}
table {{ border-collapse: collapse; margin: .4rem 0; font-variant-numeric: tabular-nums }}
td, th {{ padding: .15rem .5rem; text-align: right }} th:first-child, td:first-child {{ text-align: left }}
section table {{ font-size: .9em }} tr + tr {{ border-top: 1px solid var(--grid) }}
figure {{ margin: 0; max-width: 100% }} section svg {{ width: 100% }}
svg {{ max-width: 100%; height: auto; background: #fff; border-radius: .3rem }}
.scroll {{ overflow-x: auto }} pre {{ background: var(--card); padding: .8rem; overflow-x: auto }}
small, .note {{ color: var(--soft) }} .warning {{ color: var(--alarm); font-weight: bold }}
button, select {{ font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--grid); border-radius: .3rem }}
button {{ cursor: pointer; padding: 0 .6rem }} [aria-pressed=true] {{ outline: 2px solid var(--accent) }}
"""  # noqa: E501


def web_page(title: str, body: str, style: str = "", script: str = "") -> str:
    """The text of a file.   title: plain.   body: HTML.   style: beyond `STYLE`.   script: elements behind the body."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body>\n"
        f"<main>\n{body}\n</main>\n{script}</body></html>\n"
    )
