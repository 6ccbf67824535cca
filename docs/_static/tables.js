// Cells name their columns, for screens too narrow for a row; and what scrolls sideways can be reached by the keyboard.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table")) {
    const heads = table.tHead ? [...table.tHead.rows[0].cells].map(cell => cell.textContent.trim()) : [];
    for (const body of table.tBodies)
      for (const row of body.rows)
        [...row.cells].forEach((cell, column) => { if (heads[column]) cell.dataset.label = heads[column]; });
  }
  const frames = [...document.querySelectorAll(".table-wrapper, article pre, div.math")];
  const reach = () => frames.forEach(frame => {
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  });
  reach();
  addEventListener("resize", reach);
});
