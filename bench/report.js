// A click on a column's name sorts its table by it: by the first number of each cell where all have one, or by text.
// Each table has a link to its rows as CSV.
const quoted = cell => `"${cell.textContent.replaceAll('"', '""')}"`;
const number = text => parseFloat(text.replace(/[, ]/g, "").replace("\u2212", "-").replace("\u221e", "Infinity"));
for (const table of document.querySelectorAll("table")) {
  const lines = [...table.rows].filter(row => row.className !== "why").map(row => [...row.cells].map(quoted).join(","));
  const frame = table.parentElement, title = frame.previousElementSibling.textContent;
  frame.after(Object.assign(document.createElement("a"), {className: "csv", textContent: "CSV",
    ariaLabel: `${title} as CSV`, download: `${title}.csv`,
    href: "data:text/csv;charset=utf-8," + encodeURIComponent(lines.join("\r\n"))}));
  const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.ariaSort === "ascending" ? "descending" : "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const groups = [];  // a row, and the sentence below it
      for (const row of table.tBodies[0].rows)
        row.className === "why" ? groups.at(-1).push(row) : groups.push([row]);
      const texts = new Map(groups.map(group => [group, group[0].cells[column].textContent]));
      const known = groups.filter(group => !["", "\u2013"].includes(texts.get(group)));
      const numeric = known.every(group => !isNaN(number(texts.get(group))));
      known.sort((a, b) => (order === "ascending" ? 1 : -1) * (numeric
        ? number(texts.get(a)) - number(texts.get(b)) : texts.get(a).localeCompare(texts.get(b))));
      const rest = groups.filter(group => !known.includes(group));
      table.tBodies[0].append(...known.flat(), ...rest.flat());
    });
  });
}
