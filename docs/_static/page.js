addEventListener("DOMContentLoaded", () => {
  // Cells name their columns, for screens too narrow for a row.
  for (const table of document.querySelectorAll("article table")) {
    const heads = table.tHead ? [...table.tHead.rows[0].cells].map(cell => cell.textContent.trim()) : [];
    for (const body of table.tBodies)
      for (const row of body.rows)
        [...row.cells].forEach((cell, column) => { if (heads[column]) cell.dataset.label = heads[column]; });
  }
  // What the theme leaves out for readers of screens.
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = "2";
  const names = {".sidebar-drawer": "All pages", ".toc-drawer": "On this page"};
  for (const [kind, name] of Object.entries(names)) document.querySelector(kind)?.setAttribute("aria-label", name);
  for (const list of document.querySelectorAll(".sig dl")) {  // of parameters, which have no terms
    const made = document.createElement("ul");
    for (const item of [...list.children]) {
      const entry = document.createElement("li");
      entry.append(...item.childNodes);
      made.append(entry);
    }
    list.replaceWith(made);
  }
  // What scrolls can be reached by the keyboard.
  const reach = () => document.querySelectorAll(".table-wrapper, article pre, div.math").forEach(frame => {
    if (frame.scrollWidth > frame.clientWidth || frame.scrollHeight > frame.clientHeight) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  });
  reach();
  addEventListener("resize", reach);
});
