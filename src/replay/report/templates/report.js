"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const views = new Map();

  // Data travel as columns; Vega wants rows.
  const rows = (columns) => {
    const names = Object.keys(columns);
    return names.length
      ? columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])))
      : [];
  };
  for (const spec of Object.values(specs)) {
    for (const [name, columns] of Object.entries(spec.datasets)) spec.datasets[name] = rows(columns);
  }

  const byId = (id) => document.getElementById(id);

  // Charts over steps share one range: whoever changes it, the others follow.
  let passingOn = false;
  function showRange(range, except) {
    if (passingOn) return;
    passingOn = true;
    const runs = [];
    for (const [name, view] of views) {
      if (name !== except) runs.push(view.view.signal(view.zoom, range).runAsync());
    }
    Promise.all(runs).finally(() => { passingOn = false; });
    if (byId("range") && range) {
      byId("range-first").value = Math.round(range[0]);
      byId("range-last").value = Math.round(range[1]);
    }
  }

  async function draw(box) {
    const name = box.dataset.chart;
    if (box.clientWidth < 600) {
      const axis = specs[name].config.axisY;
      axis.minExtent = axis.maxExtent = axis.maxExtent / 2;
      axis.labelLimit = axis.maxExtent - 8;
    }
    try {
      const made = await vegaEmbed(box, specs[name], {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, tooltip: { theme: "custom" },
        loader: { load: () => Promise.reject(new Error("this page loads nothing")) },
      });
      box.classList.add("drawn");
      made.view.addEventListener("click", (event, item) => {
        if (item && item.datum && item.datum.incident) openIncident(item.datum.incident);
      });
      if ("zooms" in box.dataset) {
        const signals = Object.keys(made.view.getState({ signals: () => true, data: () => false }).signals);
        const zoom = signals.find((signal) => new RegExp(`^zoom_${name}_(step|at|first)$`).test(signal));
        if (zoom) {
          views.set(name, { view: made.view, zoom });
          made.view.addSignalListener(zoom, (_, range) => showRange(range, name));
        }
      }
    } catch (error) {
      box.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(error);
    }
  }
  root.dataset.charts = "drawing";
  Promise.all(Array.from(document.querySelectorAll(".chart"), draw)).then(() => { root.dataset.charts = "drawn"; });

  const range = byId("range");
  if (range) {
    range.addEventListener("submit", (event) => {
      event.preventDefault();
      const first = byId("range-first").valueAsNumber, last = byId("range-last").valueAsNumber;
      if (first < last) showRange([first, last]);
    });
    byId("range-all").addEventListener("click", () => {
      showRange(null);
      range.reset();
    });
  }
  for (const button of document.querySelectorAll(".zoom")) {
    button.addEventListener("click", () => {
      const step = Number(button.dataset.step), reach = Number(root.dataset.reach);
      showRange([step - reach, step + reach]);
      byId("charts").scrollIntoView();
    });
  }

  // Incidents: unfold, filter.
  const incidents = Array.from(document.querySelectorAll("tbody.incident"));
  const unfold = (body, open) => {
    body.classList.toggle("open", open);
    body.querySelector(".unfold").setAttribute("aria-expanded", String(open));
  };
  function openIncident(id) {
    const body = incidents.find((one) => one.dataset.incident === id);
    if (!body) return;
    body.hidden = false;
    unfold(body, true);
    body.scrollIntoView({ block: "center" });
    body.querySelector(".unfold").focus({ preventScroll: true });
  }
  for (const body of incidents) {
    body.querySelector(".unfold").addEventListener("click", () => unfold(body, !body.classList.contains("open")));
  }
  if (incidents.length) {
    const text = byId("incident-text"), kind = byId("incident-kind"), all = byId("incident-unfold");
    const filter = () => {
      const wanted = text.value.trim().toLowerCase();
      let shown = 0;
      for (const body of incidents) {
        const fits = body.textContent.toLowerCase().includes(wanted)
          && (!kind.value || body.dataset.kinds.split("|").includes(kind.value));
        body.hidden = !fits;
        shown += fits;
      }
      byId("incident-count").textContent = `${shown} of ${incidents.length}`;
    };
    text.addEventListener("input", filter);
    kind.addEventListener("change", filter);
    all.addEventListener("click", () => {
      const open = incidents.some((body) => !body.classList.contains("open"));
      incidents.forEach((body) => unfold(body, open));
      all.textContent = open ? "Fold all" : "Unfold all";
    });
  }
})();
