// Nothing is sent anywhere. What was typed stays in this browser until it stands in the file.
// One browser may hold the texts of several classes: what was typed is kept for this class and text, and no other is touched.
const kept = "reading " + document.querySelector("textarea").dataset.class;
const rows = [...document.querySelectorAll("[data-start]")];
const cell = (text) => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
const typed = JSON.parse(localStorage.getItem(kept) || "{}");
const inputs = (row) => [row.querySelector("[type=number]"), row.querySelector("[type=text]")];
function show() {
  const lines = [];
  for (const row of rows) {
    const [points, reason] = inputs(row);
    if (points.value === "") { delete typed[row.dataset.answer]; continue; }
    typed[row.dataset.answer] = [points.value, reason.value];
    lines.push([...JSON.parse(row.dataset.start), points.value, reason.value].map(cell).join(","));
  }
  localStorage.setItem(kept, JSON.stringify(typed));
  document.querySelector("textarea").value = lines.join("\n");
}
for (const row of rows) {
  const [points, reason] = inputs(row);
  [points.value, reason.value] = typed[row.dataset.answer] || ["", ""];
}
document.addEventListener("input", show);
document.querySelector("button").addEventListener("click", () => {
  document.querySelector("textarea").select();
  navigator.clipboard?.writeText(document.querySelector("textarea").value);
});
show();
