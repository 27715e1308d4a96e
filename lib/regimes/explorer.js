(() => {
  const decode = (text, alphabet) => {
    const base = alphabet.length / 2;
    const values = [];
    let number = 0, place = 1, value = 0, slope = 0;
    for (const letter of text) {
      if (letter === "|") { values.push(null); continue; }
      const digit = alphabet.indexOf(letter);
      number += (digit % base) * place;
      place *= base;
      if (digit >= base) continue;
      slope += number % 2 ? -(number + 1) / 2 : number / 2;
      value += slope;
      values.push(value);
      number = 0;
      place = 1;
    }
    return values;
  };
  const pick = (order, frame) => (Array.isArray(order) ? order[frame] : order);

  const start = (root) => {
    const { alphabet, unit, lines, texts, alts, alt, sizes, values } = JSON.parse(root.querySelector("script").textContent);
    const find = (name) => root.querySelector(`[id="${root.dataset.explorer}-${name}"]`);
    const svg = root.querySelector("svg");
    const inputs = [...root.querySelectorAll("input")];
    const outputs = [...root.querySelectorAll("output")];
    const cache = new Map();
    const coordinates = (text) => {
      if (!cache.has(text)) cache.set(text, decode(text, alphabet));
      return cache.get(text);
    };
    const written = (value) => (value * unit).toFixed(1);

    const moveLine = (name, line, frame) => {
      const xs = coordinates(line.xs[pick(line.x, frame)]), ys = coordinates(line.ys[pick(line.y, frame)]);
      const group = find(name), path = [...group.children].find((child) => child.tagName === "path");
      const points = xs.map((x, i) => (x === null || ys[i] === null ? null : [written(x), written(ys[i])]));
      if (path) path.setAttribute("d", points.map((p, i) => p && `${i && points[i - 1] ? "L" : "M"}${p}`).filter(Boolean).join(""));
      const marks = group.querySelectorAll("use");
      if (!marks.length) return;
      const seen = points.filter(Boolean);
      for (let i = 0; i < Math.max(marks.length, seen.length); i++) {
        const mark = marks[i] ?? marks[0].parentNode.appendChild(marks[0].cloneNode());
        mark.style.display = seen[i] ? "" : "none";
        if (seen[i]) { mark.setAttribute("x", seen[i][0]); mark.setAttribute("y", seen[i][1]); }
      }
    };
    const frameOf = (key) => inputs.reduce((at, input, i) => at * sizes[i] + Number(input[key]), 0);
    const drawn = frameOf("defaultValue");
    const moveText = (name, text, frame) => {
      const [words, x, y] = text.states[pick(text.at, frame)], [, x0, y0] = text.states[pick(text.at, drawn)];
      const group = find(name);
      group.querySelector("text").textContent = words;
      group.setAttribute("transform", `translate(${x - x0} ${y - y0})`);
    };
    const move = () => {
      const frame = frameOf("value");
      inputs.forEach((input, i) => {
        outputs[i].textContent = values[i][input.value];
        input.setAttribute("aria-valuetext", values[i][input.value]);
      });
      for (const [name, line] of Object.entries(lines)) moveLine(name, line, frame);
      for (const [name, text] of Object.entries(texts)) moveText(name, text, frame);
      svg.setAttribute("aria-label", alts[pick(alt, frame)]);
    };
    inputs.forEach((input) => input.addEventListener("input", move));
    root.querySelector(".regimes-explorer-still").hidden = true;
    root.querySelector(".regimes-explorer-controls").hidden = false;
    root.dataset.ready = "";
    move(); // a browser may have kept the sliders where the reader left them
  };
  document.querySelectorAll(".regimes-explorer:not([data-ready])").forEach(start);
})();
