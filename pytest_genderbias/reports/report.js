"use strict";
// Sorts and filters the tables of the report. Without it they are whole, in the order in which they were written.
(() => {
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function keyOf(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
  }

  // Cells without a key stay at the end in both directions.
  function compare(one, other, factor, numeric) {
    if (one === "" || other === "") return (one === "") - (other === "");
    return factor * (numeric ? Number(one) - Number(other) : collator.compare(one, other));
  }

  function sort(table, header, descending) {
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [keyOf(row, header.cellIndex), row]);
    const numeric = header.dataset.kind === "number";
    keyed.sort((a, b) => compare(a[0], b[0], descending ? -1 : 1, numeric));
    body.append(...keyed.map(([, row]) => row));
  }

  // Cards have no headers to press: a list takes their place where the style sheet shows it.
  function sortList(table) {
    const [label, list] = [document.createElement("label"), document.createElement("select")];
    label.className = "sort";
    label.append("Sort by ", list);
    list.add(new Option("", ""));
    for (const header of table.tHead.rows[0].cells) {
      for (const [direction, sign] of [["ascending", "\u2191"], ["descending", "\u2193"]]) {
        list.add(new Option(`${header.textContent} ${sign}`, `${header.cellIndex} ${direction}`));
      }
    }
    list.addEventListener("change", () => {
      const [column, direction] = list.value.split(" ");
      if (direction) sort(table, table.tHead.rows[0].cells[Number(column)], direction === "descending");
    });
    return label;
  }

  function setUp(table) {
    const controls = document.querySelector(`.controls[data-for="${table.id}"]`);
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, header, header.getAttribute("aria-sort") === "ascending"));
    }
    if (!controls) return;
    if (table.closest(".cards")) controls.append(sortList(table));
    const [input, status] = [controls.querySelector("input"), controls.querySelector("output")];
    const buttons = [...controls.querySelectorAll("button")];
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    function filter() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const outcomes = buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.value);
      let shown = 0;
      rows.forEach((row, i) => {
        const fits = (!outcomes.length || outcomes.includes(row.dataset.outcome)) && words.every((word) => texts[i].includes(word));
        row.hidden = !fits;
        shown += fits;
      });
      status.textContent = shown === rows.length ? "" : `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
    }
    input.addEventListener("input", filter);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { input.value = ""; filter(); }
    });
    for (const button of buttons) {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
        filter();
      });
    }
    filter(); // a browser may have kept what was typed before the page was loaded again
  }

  document.documentElement.classList.add("scripted");
  for (const table of document.querySelectorAll("table.sortable")) setUp(table);

  // A link to something inside of closed details opens them; so does printing.
  function openAround(element) {
    for (let node = element; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  }
  function follow() {
    const target = document.getElementById(location.hash.slice(1));
    if (target) { openAround(target); target.scrollIntoView(); }
  }
  addEventListener("hashchange", follow);
  if (location.hash) follow();
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const one of unfolded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of unfolded) one.open = false; });
})();
