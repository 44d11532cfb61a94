// What a test asks of a page: returns what is wrong, as lists of texts. It runs where the page itself may run nothing.
(least => {
  const shown = s => [...document.querySelectorAll(s)].filter(e =>
    e.checkVisibility() && e.getBoundingClientRect().width > 0 && !e.closest('title,desc,defs'));

  const wide = shown('body *').filter(e => {
    const r = e.getBoundingClientRect();
    return r.left < -1 || r.right > innerWidth + 1;
  }).map(e => `${e.tagName} ${e.textContent.slice(0, 60)} ${e.getBoundingClientRect().right}`);
  if (document.documentElement.scrollWidth > innerWidth) wide.push(`the page has ${document.documentElement.scrollWidth} px`);

  // Contrast of WCAG 2: each text against the first thing behind it that has a colour.
  const parse = c => { const n = c.match(/[\d.]+/g); return n ? [...n.map(Number), 1].slice(0, 4) : [0, 0, 0, 0]; };
  const light = c => {
    const f = c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2];
  };
  const inSVG = e => e instanceof SVGElement && !(e instanceof SVGSVGElement);
  const paint = e => {
    const s = getComputedStyle(e);
    if (inSVG(e)) return e instanceof SVGTextElement || s.fill === 'none' || s.fill.startsWith('url') ? null : parse(s.fill);
    const c = parse(s.backgroundColor);
    return c[3] === 0 ? null : c;
  };
  const faint = [];
  const textOf = e => [...e.childNodes].find(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
  for (const e of shown('body *').filter(textOf)) {
    const range = document.createRange();
    range.selectNode(textOf(e));
    const r = range.getClientRects()[0] || e.getBoundingClientRect();
    const behind = document.elementsFromPoint(r.left + r.width / 2, r.top + r.height / 2).map(paint).find(c => c);
    const back = behind || parse(getComputedStyle(document.documentElement).backgroundColor);
    if (back[3] === 0) back.splice(0, 4, 255, 255, 255, 1);
    const ink = parse(inSVG(e) ? getComputedStyle(e).fill : getComputedStyle(e).color);
    const [a, b] = [light(ink), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (!(ratio >= least)) faint.push(`${ratio.toFixed(2)}: ${ink} on ${back}: ${e.textContent.slice(0, 40)}`);
  }

  // Slanted labels have boxes that overlap, though they do not.
  const clash = [];
  let texts = 0;
  for (const figure of shown('svg,.ticks')) {
    const frame = figure.getBoundingClientRect(), name = (figure.querySelector('title') || figure).textContent.slice(0, 30);
    const all = [...figure.querySelectorAll('text,span')].map(e => ({
      text: e.textContent, box: e.getBoundingClientRect(), slant: e.classList.contains('slant'),
    }));
    texts += all.length;
    all.forEach(({text, box, slant}, i) => {
      if (box.left < frame.left - 3 || box.right > frame.right + 3 || box.top < frame.top - 3 || box.bottom > frame.bottom + 3)
        clash.push(`${name}: ${text} leaves its figure`);
      for (const other of all.slice(i + 1)) {
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (!slant && !other.slant && across > 1 && down > 4) clash.push(`${name}: ${text} on ${other.text}`);
      }
    });
  }
  return {ground: getComputedStyle(document.body).backgroundColor, wide, faint, clash, texts, figures: document.querySelectorAll('svg').length};
})
