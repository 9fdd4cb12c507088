"use strict";
// The page is complete without this file; it adds tooltips, toggles, copy and download.
const root = document.documentElement;
addEventListener("error", (event) => {
  root.dataset.errors = `${root.dataset.errors || ""}${event.message}; `;
});
root.classList.add("js");

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const pressed = (button) => button.getAttribute("aria-pressed") === "true";
const press = (button) => button.setAttribute("aria-pressed", String(!pressed(button)));
const onClick = (id, action) => {
  const button = document.getElementById(id);
  if (button) button.addEventListener("click", () => action(button));
};

// Light and dark: what the system prefers until the button is pressed.
const dark = () =>
  (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const nameTheme = () => {
  document.getElementById("theme").textContent = dark() ? "light" : "dark";
};
onClick("theme", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  nameTheme();
});
nameTheme();

// One tooltip for all points; the first line of a label is a name.
const tip = document.getElementById("tip");
const centre = (point) => {
  const box = point.querySelector(".mark, .cross").getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
};
function hideTip() {
  tip.hidden = true;
  for (const point of all(".point.near")) point.classList.remove("near");
}
function showPoint(point) {
  hideTip();
  point.classList.add("near");
  tip.replaceChildren(
    ...point.getAttribute("aria-label").split(",\n").map((line, index) => {
      const row = document.createElement(index ? "div" : "strong");
      row.textContent = line;
      return row;
    }),
  );
  tip.hidden = false;
  const [x, y] = centre(point);
  const { width, height } = tip.getBoundingClientRect();
  const above = y - height - 14;
  tip.style.left = `${Math.max(8, Math.min(x - width / 2, root.clientWidth - width - 8))}px`;
  tip.style.top = `${above > 8 ? above : y + 18}px`;
}
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});

// Points: the nearest to the pointer, or the focused one; arrows walk along the line.
for (const chart of all("svg.chart").filter((each) => each.querySelector(".point"))) {
  const points = all(".point", chart);
  const visible = () => points.filter((point) => point.getClientRects().length);
  points.slice(1).forEach((point) => point.setAttribute("tabindex", "-1"));
  chart.addEventListener("pointermove", (event) => {
    const distance = (point) => {
      const [x, y] = centre(point);
      return Math.hypot(x - event.clientX, y - event.clientY);
    };
    const nearest = visible().reduce((a, b) => (distance(b) < distance(a) ? b : a));
    if (distance(nearest) < 36) showPoint(nearest);
    else hideTip();
  });
  chart.addEventListener("pointerleave", hideTip);
  for (const point of points) {
    point.addEventListener("focus", () => showPoint(point));
    point.addEventListener("blur", hideTip);
    point.addEventListener("click", () => showPoint(point));
  }
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const reachable = visible();
    const next = reachable[reachable.indexOf(document.activeElement) + step];
    if (!step || !next) return;
    event.preventDefault();
    document.activeElement.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

// Figures: the control comes and goes, chips hide and highlight lines, others can be picked.
for (const figure of all("figure")) {
  const marks = (line) => all(`svg.chart [data-line="${line}"]`, figure);
  const highlight = (line) => {
    for (const mark of all("svg.chart [data-line]", figure)) {
      mark.classList.toggle("dim", line !== null && mark.dataset.line !== line);
    }
  };
  for (const button of all("[data-toggle]", figure)) {
    button.addEventListener("click", () => {
      press(button);
      figure.toggleAttribute("data-alone", !pressed(button));
    });
  }
  for (const chip of all(".chip", figure)) {
    const line = chip.dataset.line;
    chip.addEventListener("click", () => {
      press(chip);
      for (const mark of marks(line)) mark.classList.toggle("off", !pressed(chip));
    });
    for (const event of ["pointerenter", "focus"]) chip.addEventListener(event, () => highlight(line));
    for (const event of ["pointerleave", "blur"]) chip.addEventListener(event, () => highlight(null));
  }
  for (const picker of all("select", figure)) {
    picker.addEventListener("change", () => {
      for (const path of all("path.picked", figure)) {
        path.classList.toggle("off", path.dataset.line !== picker.value);
      }
    });
  }
}

// Copy and download.
const said = document.getElementById("said");
onClick("copy", () => {
  const citation = document.getElementById("citation");
  const choose = () => {
    getSelection().selectAllChildren(citation);
    said.textContent = "selected; copy it with the keyboard";
  };
  if (!navigator.clipboard) return choose();
  navigator.clipboard.writeText(citation.innerText).then(() => (said.textContent = "copied"), choose);
});
onClick("download", () => {
  const link = document.createElement("a");
  const text = document.getElementById("data").textContent;
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "report.lawscope.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  said.textContent = "saved as report.lawscope.json";
});

root.dataset.ready = "true";
