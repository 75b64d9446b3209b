// Draws the figures of the page in the colours of its style sheet; redraws them when these change, and for printing.
(function () {
  "use strict";
  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var touch = window.matchMedia("(pointer: coarse)");
  var figures = Array.prototype.map.call(document.querySelectorAll("script.figure"), function (script) {
    var figure = JSON.parse(script.textContent);
    figure.place = script.previousElementSibling;
    return figure;
  });

  function coloured(value, key, style) {
    if (Array.isArray(value)) {
      // Long lists are numbers and labels, never colours.
      return value.map(function (item) { return item && typeof item === "object" ? coloured(item, "", style) : item; });
    }
    if (value && typeof value === "object") {
      var copy = {};
      Object.keys(value).forEach(function (name) { copy[name] = coloured(value[name], name, style); });
      return copy;
    }
    if (typeof value === "string" && value[0] === "$" && /color$/.test(key)) {
      return style.getPropertyValue("--" + value.slice(1)).trim();
    }
    return value;
  }

  function merged(base, over) {
    Object.keys(over).forEach(function (key) {
      var both = base[key] && over[key] && typeof base[key] === "object" && typeof over[key] === "object";
      base[key] = both && !Array.isArray(over[key]) ? merged(base[key], over[key]) : over[key];
    });
    return base;
  }

  function axis() {
    return {
      color: "$muted", gridcolor: "$line", zeroline: false, automargin: true, ticks: "", showline: false,
      exponentformat: "none", separatethousands: true,
      fixedrange: touch.matches, title: { standoff: 8 }, nticks: 7
    };
  }

  function layout(figure) {
    var xaxis = axis();
    xaxis.showgrid = false;
    xaxis.showline = true;
    xaxis.linecolor = "$line";
    var base = {
      paper_bgcolor: "$paper", plot_bgcolor: "$paper", height: figure.height,
      font: { family: window.getComputedStyle(document.body).fontFamily, size: 12, color: "$ink" },
      margin: { l: 8, r: 12, t: 12, b: 8, pad: 4 }, xaxis: xaxis, yaxis: axis(),
      showlegend: false,
      hovermode: "x unified", dragmode: touch.matches ? false : "zoom",
      hoverlabel: { bgcolor: "$raised", bordercolor: "$line", font: { color: "$ink" } }
    };
    return merged(base, figure.layout);
  }

  function draw(width) {
    var style = window.getComputedStyle(root);
    figures.forEach(function (figure) {
      var shape = coloured(layout(figure), "", style);
      (shape.annotations || []).forEach(function (word) {
        word.font = { size: 11, color: style.getPropertyValue("--muted").trim() };
      });
      if (width) { shape.width = width(figure.place); }
      Plotly.react(figure.place, coloured(figure.data, "", style), shape, { displayModeBar: false, responsive: !width });
    });
  }

  // Charts of one time axis zoom together; those that show the range already are left alone, which ends the exchange.
  function zoomTogether(charts) {
    charts.forEach(function (chart) {
      chart.place.on("plotly_relayout", function () {
        var range = chart.place.layout.xaxis.range;
        charts.forEach(function (other) {
          if (String(other.place.layout.xaxis.range) !== String(range)) {
            Plotly.relayout(other.place, { "xaxis.range": range.slice() });
          }
        });
      });
    });
  }

  draw(null);
  zoomTogether(figures.filter(function (figure) { return figure.layout.meta === "time"; }));
  root.dataset.drawn = String(figures.length);
  dark.addEventListener("change", function () { draw(null); });
  window.addEventListener("beforeprint", function () {
    root.classList.add("on-paper");
    draw(function (place) { return place.closest(".pair") ? 320 : 660; });
  });
  window.addEventListener("afterprint", function () {
    root.classList.remove("on-paper");
    draw(null);
  });
})();
