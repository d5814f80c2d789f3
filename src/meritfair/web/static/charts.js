// Charts: draws what a page has in data-chart, with uPlot, in the colours of the page, light or dark.
"use strict";

(function () {
  const speech = document.documentElement.lang || "en";
  const language = navigator.language.startsWith(speech) ? navigator.language : speech;
  const LIGHT = {
    "--ink": "#1b2527", "--ink-soft": "#3c4547", "--grid": "#dddddd", "--surface": "#ffffff", "--danger": "#a3222a",
    "--series-1": "#0b5f63", "--series-2": "#b4530a", "--series-3": "#4f4a9e",
    "--series-4": "#8a6d00", "--series-5": "#a3224f", "--series-6": "#566063",
  };
  const drawn = new Map(); // element -> { plot, width }
  let onPaper = false;

  function color(name) {
    if (onPaper) return LIGHT[name];
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || LIGHT[name];
  }

  function faint(name, part) {
    return `color-mix(in srgb, ${color(name)} ${part}%, transparent)`;
  }

  // ---- numbers

  function written(value, unit, digits) {
    const most = digits === undefined ? (Math.abs(value) >= 100 ? 0 : 2) : digits;
    const text = value.toLocaleString(language, { maximumFractionDigits: most }).replace("-", "\u2212");
    return unit ? text + (unit === "%" ? "\u00a0" : " ") + unit : text;
  }

  function power(value) {
    const number = 10 ** value;
    if (number >= 0.01 && number < 1e6) return number.toLocaleString(language, { maximumSignificantDigits: 2 });
    return "10^" + Math.round(value).toLocaleString(language).replace("-", "\u2212");
  }

  function shown(spec, value) {
    if (value === null || value === undefined) return "\u2013";
    return spec.powers ? power(value) : written(value, spec.unit);
  }

  function short(text, most) {
    return text.length > most ? text.slice(0, Math.max(1, most - 1)) + "\u2026" : text;
  }

  // ---- what uPlot is told

  function axes(spec, width) {
    const base = { stroke: color("--ink-soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const grid = { stroke: color("--grid"), width: 1 };
    const x = { ...base, grid: { show: false }, ticks: { show: false }, label: spec.x_label || undefined, labelSize: 20, size: 30 };
    if (spec.names.length) {
      const room = Math.floor((width - 60) / Math.max(1, spec.names.length) / 7);
      x.splits = () => spec.names.map((_, place) => place);
      x.values = () => spec.names.map((name) => short(name, Math.max(2, room)));
    } else {
      x.values = (_, splits) => splits.map((value) => (value === null || (spec.whole && value % 1) ? "" : written(value, "")));
      if (spec.whole) x.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
    }
    const y = {
      ...base, grid, ticks: { show: false }, label: spec.y_label || undefined, labelSize: 20,
      size: 56, space: 34,
      values: (_, splits) => splits.map((value) => (value === null ? "" : spec.powers ? (value % 1 ? "" : power(value)) : written(value, spec.unit))),
    };
    if (spec.kind === "histogram") y.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];
    if (spec.powers) y.incrs = [1, 2, 5, 10, 20, 50, 100];
    return [x, y];
  }

  function range(spec) {
    const bars = spec.kind === "bars" || spec.kind === "histogram";
    let values = spec.levels.map((level) => level.value);
    for (const curve of spec.curves) {
      for (const part of [curve.values, curve.low, curve.high]) values = values.concat(part || []);
    }
    values = values.filter((value) => value !== null && Number.isFinite(value));
    let low = Math.min(bars ? 0 : Infinity, ...values), high = Math.max(bars ? 0 : -Infinity, ...values);
    if (!Number.isFinite(low)) [low, high] = [0, 1];
    const room = (high - low || 1) * 0.06;
    return [bars && low === 0 ? 0 : low - room, high + room];
  }

  function series(spec) {
    const found = [{ label: spec.x_label || "", value: (_, value) => (value === null || value === undefined ? "\u2013" : spec.names.length ? spec.names[value] || "" : written(value, "")) }];
    const data = [spec.x], bands = [];
    for (const curve of spec.curves) {
      const name = "--series-" + curve.color;
      if (curve.low && curve.high && spec.kind === "lines") {
        for (const edge of [curve.high, curve.low]) {
          found.push({ label: "", class: "band-edge", stroke: "transparent", width: 0, points: { show: false }, paths: curve.step ? uPlot.paths.stepped({ align: 1 }) : undefined });
          data.push(edge);
        }
        bands.push({ series: [found.length - 2, found.length - 1], fill: faint(name, 18) });
      }
      const bars = spec.kind !== "lines";
      found.push({
        label: curve.name,
        mark: color(name),
        stroke: bars || curve.line ? color(name) : "transparent",
        fill: bars ? color(name) : undefined,
        width: bars ? 0 : 2.5,
        dash: curve.dashed ? [6, 5] : undefined,
        spanGaps: false,
        points: { show: curve.points, size: 8, fill: color(name), stroke: color("--surface"), width: 1.5 },
        paths: bars ? () => null : curve.step ? uPlot.paths.stepped({ align: 1 }) : !curve.line ? () => null : undefined,
        value: (_, value) => shown(spec, value),
      });
      data.push(curve.values);
    }
    return { series: found, data, bands };
  }

  // ---- what uPlot does not draw by itself

  function bars(spec) {
    return (plot) => {
      const { ctx } = plot, zero = plot.valToPos(0, "y", true);
      const step = Math.abs(plot.valToPos(spec.x[1] ?? spec.x[0] + 1, "x", true) - plot.valToPos(spec.x[0], "x", true));
      const room = spec.kind === "histogram" ? step * 0.94 : Math.min(step * 0.8, 220 * devicePixelRatio);
      const own = room / spec.curves.length;
      ctx.save();
      spec.curves.forEach((curve, place) => {
        ctx.fillStyle = color("--series-" + curve.color);
        curve.values.forEach((value, at) => {
          if (value === null) return;
          const left = plot.valToPos(spec.x[at], "x", true) - room / 2 + place * own, top = plot.valToPos(value, "y", true);
          const gap = spec.kind === "histogram" ? 0 : Math.min(2 * devicePixelRatio, own * 0.1);
          ctx.fillRect(left, Math.min(top, zero), own - gap, Math.abs(zero - top));
        });
      });
      ctx.restore();
    };
  }

  function intervals(spec) {
    return (plot) => {
      const { ctx } = plot, unit = devicePixelRatio;
      ctx.save();
      spec.curves.forEach((curve, place) => {
        const aside = (place - (spec.curves.length - 1) / 2) * 14 * unit;
        ctx.strokeStyle = ctx.fillStyle = color("--series-" + curve.color);
        ctx.lineWidth = 3 * unit;
        curve.values.forEach((value, at) => {
          if (value === null) return;
          const x = plot.valToPos(spec.x[at], "x", true) + aside, y = (given) => plot.valToPos(given, "y", true);
          ctx.beginPath();
          ctx.moveTo(x, y(curve.low[at]));
          ctx.lineTo(x, y(curve.high[at]));
          ctx.stroke();
          ctx.beginPath();
          ctx.arc(x, y(value), 6 * unit, 0, 2 * Math.PI);
          ctx.fill();
        });
      });
      ctx.restore();
    };
  }

  function levels(spec) {
    return (plot) => {
      const { ctx, bbox } = plot, along = spec.kind === "histogram";
      ctx.save();
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
      for (const level of spec.levels) {
        ctx.strokeStyle = ctx.fillStyle = color("--ink");
        const at = plot.valToPos(level.value, along ? "x" : "y", true);
        ctx.beginPath();
        if (along) { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); }
        else { ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); }
        ctx.stroke();
        if (!along && level.name) {
          ctx.textBaseline = at - bbox.top < 20 * devicePixelRatio ? "top" : "bottom";
          const off = (ctx.textBaseline === "top" ? 4 : -4) * devicePixelRatio;
          ctx.fillText(level.name, bbox.left + 6 * devicePixelRatio, at + off);
        }
      }
      ctx.restore();
    };
  }

  function options(spec, width) {
    const made = series(spec), [low, high] = range(spec), first = spec.x[0], last = spec.x[spec.x.length - 1];
    const half = spec.kind === "lines" ? (first === last ? 0.5 : 0) : spec.names.length ? 0.5 : ((last - first) / Math.max(1, spec.x.length - 1)) / 2 || 0.5;
    const ends = [first - half, last + half];
    if (spec.kind === "histogram") {
      for (const level of spec.levels) { ends[0] = Math.min(ends[0], level.value - half); ends[1] = Math.max(ends[1], level.value + half); }
    }
    return [{
      width, height: width < 480 ? 240 : 300,
      padding: [12, 14, 0, 0],
      scales: { x: { time: false, range: () => ends }, y: { range: () => [low, high] } },
      series: made.series, bands: made.bands, axes: axes(spec, width),
      legend: { live: true, markers: { width: 0, fill: (_, at) => made.series[at].mark || "transparent" } },
      cursor: { drag: { x: false, y: false }, points: { show: spec.kind === "lines" }, y: false },
      hooks: {
        drawAxes: spec.kind === "lines" ? [] : [spec.kind === "intervals" ? intervals(spec) : bars(spec)],
        draw: [levels(spec)],
      },
    }, made.data];
  }

  function draw(element) {
    const old = drawn.get(element);
    if (old) old.plot.destroy();
    const width = Math.floor(element.clientWidth);
    if (!width) { drawn.delete(element); return; }
    const spec = JSON.parse(element.dataset.chart);
    if (!spec.x.length) return;
    const [told, data] = options(spec, width);
    drawn.set(element, { plot: new uPlot(told, data, element), width });
  }

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const old = drawn.get(target);
      if (!old || Math.abs(old.width - Math.floor(target.clientWidth)) > 1) draw(target);
    }
  });

  function begin(root) {
    for (const element of root.querySelectorAll("[data-chart]:not([data-drawn])")) {
      element.dataset.drawn = "";
      draw(element);
      resized.observe(element);
    }
    for (const element of drawn.keys()) {
      if (!element.isConnected) {
        drawn.get(element).plot.destroy();
        drawn.delete(element);
        resized.unobserve(element);
      }
    }
  }

  function redraw() {
    for (const element of [...drawn.keys()]) draw(element);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => { onPaper = true; redraw(); });
  window.addEventListener("afterprint", () => { onPaper = false; redraw(); });
  document.addEventListener("htmx:afterSettle", () => begin(document));
  begin(document);
})();
