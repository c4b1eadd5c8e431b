"""The page of the matrix: one file with all that it needs, nothing from the network.

Rule: what clients said is text; every name and note is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from itertools import groupby

from interop.matrix.brokers import TARGETS
from interop.matrix.columns import COLUMNS, Column
from interop.matrix.results import RED, Cell, Results
from interop.matrix.rows import Row

STYLE = """
:root { color-scheme: light dark; --green: #1a7f37; --red: #cf222e; --grey: #9aa0a6; --line: #8884; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; min-width: 76rem; }
table { border-collapse: collapse; table-layout: fixed; width: 76rem; margin: .5rem 0 2rem; }
th, td { padding: .15rem 0; border-bottom: 1px solid var(--line); text-align: center; white-space: nowrap; }
thead th { position: sticky; top: 0; z-index: 1; background: Canvas; font-size: .62rem; font-weight: 600;
  white-space: normal; vertical-align: bottom; }
tbody th { position: sticky; left: 0; background: Canvas; text-align: left; font-weight: 400; }
button { all: unset; display: inline-block; width: .9rem; cursor: pointer; font-weight: 700; text-align: center; }
button:focus-visible { outline: 2px solid Highlight; }
.green { color: var(--green); } .red { color: var(--red); } .grey, .none { color: var(--grey); }
#said { position: sticky; bottom: 0; z-index: 1; background: Canvas; border-top: 2px solid var(--line);
  padding: .6rem 0; min-height: 3em; white-space: pre-wrap; overflow-wrap: anywhere; }
nav { display: flex; gap: 1rem; flex-wrap: wrap; }
[hidden] { display: none; }
"""
SCRIPT = """
const targets = JSON.parse(document.getElementById('targets').textContent);
function tell(event) {
  const mark = event.target.closest && event.target.closest('td > button');
  if (!mark) return;
  const cell = mark.parentElement, row = cell.parentElement, data = mark.dataset;
  const column = cell.closest('table').tHead.rows[0].cells[cell.cellIndex].textContent;
  const older = mark.nextElementSibling ? '' : ` as ${row.cells[1].textContent}`;
  const target = targets[[...cell.children].indexOf(mark)] + older;
  const found = data.when ? `${mark.className}, ${data.s} s, ${data.when} UTC` : 'not run';
  document.getElementById('said').textContent =
    [`${row.dataset.name} · ${column} · ${target}: ${found}`, data.note, row.dataset.ran].filter(Boolean).join('\\n');
}
document.addEventListener('click', tell);
document.addEventListener('focusin', tell);
function filter() {
  const words = document.getElementById('find').value.toLowerCase();
  const red = document.getElementById('red').checked;
  for (const row of document.querySelectorAll('tbody tr'))
    row.hidden = !row.dataset.name.toLowerCase().includes(words) || (red && !row.querySelector('.red'));
}
document.getElementById('find').addEventListener('input', filter);
document.getElementById('red').addEventListener('change', filter);
"""
MARKS = {"green": "●", "red": "✗", "grey": "○", "none": "·"}
LEGEND = {"green": "it works", "red": "it fails", "grey": "it can't be tried", "none": "it was not run"}


def html(rows: Sequence[Row], results: Results) -> str:
    tables = "".join(
        _table(client, list(group), results) for client, group in groupby(rows, key=lambda row: row.client)
    )
    columns = "".join(f"<li><b>{escape(column.title)}</b>: {escape(column.says)}</li>" for column in COLUMNS)
    legend = ", ".join(f'<span class="{state}">{MARKS[state]}</span> {says}' for state, says in LEGEND.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>The matrix</title><style>{STYLE}</style></head><body>
<h1>The matrix</h1>
<p>Three marks in a cell: ours, Apache Kafka, ours as the older release in the second column. {legend}.
Click one for more: what it ran, when, how long, and what the program said.</p>
<details><summary>What the columns check</summary><ul>{columns}</ul></details>
<nav><label>Find <input id="find" type="search"></label>
<label><input id="red" type="checkbox"> only rows with red</label></nav>
{tables}<div id="said" role="status"></div>
<script id="targets" type="application/json">{json.dumps(TARGETS)}</script><script>{SCRIPT}</script></body></html>
"""


def _table(client: str, rows: Sequence[Row], results: Results) -> str:
    heads = "".join(f'<th scope="col" title="{escape(column.says)}">{escape(column.title)}</th>' for column in COLUMNS)
    body = "".join(_row(row, results) for row in rows)
    return f"""<h2>{escape(client)}</h2><table><thead><tr><th>release</th><th>older</th>{heads}</tr></thead>
<tbody>{body}</tbody></table>
"""


def _row(row: Row, results: Results) -> str:
    cells = "".join(f"<td>{_cell(row, column, results)}</td>" for column in COLUMNS)
    ran = escape(" ".join([*row.command, "SCENARIO", results.with_what.get(row.name, "")]).strip())
    heads = f'<th scope="row">{escape(row.version)}</th><td>{escape(row.older)}</td>'
    return f'<tr data-name="{escape(row.name)}" data-ran="{ran}">{heads}{cells}</tr>\n'


def _cell(row: Row, column: Column, results: Results) -> str:
    return "".join(_mark(_why(row, target, column, results)) for target in TARGETS)


def _why(row: Row, target: str, column: Column, results: Results) -> Cell | None:
    cell = results.cells.get((row.name, target, column.name))
    if cell is None or cell.state != RED:
        return cell
    return cell._replace(note=row.why(target, column.name, cell.note))


def _mark(cell: Cell | None) -> str:
    if cell is None:
        return f'<button class="none">{MARKS["none"]}</button>'
    note = f' data-note="{escape(cell.note)}"' if cell.note else ""
    data = f'data-s="{cell.seconds}" data-when="{cell.when}"{note}'
    return f'<button class="{cell.state}" {data}>{MARKS[cell.state]}</button>'
