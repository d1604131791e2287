// Nothing is sent anywhere. What was typed stays in this browser until it stands in the file.
const kept = "reading " + document.title, rows = [...document.querySelectorAll("[data-start]")];
const cell = (text) => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
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
  document.querySelector("textarea").value = lines.join("\n");
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
