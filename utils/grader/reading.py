"""A page for the person who reads the written answers: each text with a place for points, as lines for decisions.csv."""

import json
from html import escape
from pathlib import Path

from utils.course.notebooks.lab import Lab
from utils.grader import decisions, gradebook, pages
from utils.grader.feedback import title_of_question
from utils.grader.written import questions

# Nothing is sent anywhere. What was typed stays in this browser until it stands in the file.
SCRIPT = """
const kept = "reading " + document.title, rows = [...document.querySelectorAll("[data-start]")];
const cell = (text) => /[",\\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
const typed = JSON.parse(localStorage.getItem(kept) || "{}");
const inputs = (row) => [row.querySelector("[type=number]"), row.querySelector("[type=text]")];
function show() {
  const lines = [], now = {};
  for (const row of rows) {
    const [points, reason] = inputs(row);
    if (points.value === "") continue;
    now[row.dataset.start] = [points.value, reason.value];
    lines.push([...JSON.parse(row.dataset.start), points.value, reason.value].map(cell).join(","));
  }
  localStorage.setItem(kept, JSON.stringify(now));
  document.querySelector("textarea").value = lines.join("\\n");
}
for (const row of rows) {
  const [points, reason] = inputs(row);
  [points.value, reason.value] = typed[row.dataset.start] || ["", ""];
}
document.addEventListener("input", show);
document.querySelector("button").addEventListener("click", () => {
  document.querySelector("textarea").select();
  navigator.clipboard?.writeText(document.querySelector("textarea").value);
});
show();
"""


def reading_path(out: Path, lab: Lab) -> Path:
    return out / f"{lab.name}.written.html"


def write_reading(out: Path, lab: Lab, records: list[dict]) -> None:
    """OUT/<lab>.written.html, from the records with decisions; nothing for a lab without such questions."""
    path, mark = reading_path(out, lab), pages.mark_of(lab, Path(__file__), records)
    if questions(lab) and not pages.is_made_from(path, mark):
        gradebook.write_whole(path, page(lab, records, mark))


def page(lab: Lab, records: list[dict], mark: str = "") -> str:
    """The page as HTML. A text that has its points already is shown with them, and is not asked about again."""
    waiting = sum(len(record["waits"]) for record in records)
    body = [
        f"<h1>{pages.phrase(lab.book.title)}: written answers</h1>",
        f"<p>{waiting} to be read. The points that you give become lines, below. Put these at the end of "
        f"<code>{decisions.NAME}</code>, whose first line is <code>{','.join(decisions.COLUMNS)}</code>, and call the same "
        "command again. Students read the reasons, as Markdown.</p>",
    ]
    could_be_read = [record for record in records if not gradebook.blank(record)]
    for question in questions(lab):
        points = f"<span class=points>{question.points} points</span>"
        body.append(f"<h2>{points}{pages.phrase(title_of_question(question))}</h2>")
        first, _, rest = question.prose.source.strip().partition("\n")
        body.append(pages.markdown(rest if first.startswith("#") else question.prose.source))
        for record in could_be_read:
            body += [_answer(record, answer) for answer in record["written"] if answer["name"] == question.name]
    body.append("<h2>Lines for the file</h2><p><button>Copy</button></p>")
    body.append('<textarea rows=8 readonly aria-label="lines for the file"></textarea>')
    body.append(f"<script>{SCRIPT}</script>")
    return pages.document(f"{pages.words(lab.book.title)}: written answers", body, mark)


def _answer(record: dict, answer: dict) -> str:
    head = f"<h3>{escape(record['student'])}</h3>"
    if not answer["text"]:
        return f"{head}<p class=note>Nothing was written.</p>"
    text = f"<div class=answer>{escape(answer['text'])}</div>"
    if answer["name"] not in record["waits"]:
        reason = escape(record["reasons"].get(answer["name"], ""))
        return f"{head}{text}<p class=full>{answer['earned']} of {answer['points']} points. {reason}</p>"
    start = escape(json.dumps([record["lab"].partition("_")[0], decisions.called(record), answer["name"]]))
    points = f'<input type=number min=0 max={answer["points"]} aria-label="points"> of {answer["points"]} points'
    reason = '<input type=text placeholder="reason" aria-label="reason" style="width:min(100%,32rem)">'
    return f'{head}{text}<p data-start="{start}">{points} {reason}</p>'
