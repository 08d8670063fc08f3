"use strict";
/* What the scripts of all pages share. Names come onto a page as text only, never as markup. */
const page = (() => {
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const number = new Intl.NumberFormat("en-US");
  const fill = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "text") node.textContent = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value);
    }
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  };
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const plural = (n, one, many) => `${number.format(n)} ${n === 1 ? one : many}`;
  const share = (n, all) => (all > 0 ? n / all : 0);
  const literal = (text) => el("bdi", { class: "name", text });
  const fact = (key, ...values) => {
    if (values.length) byId("facts").append(el("div", {}, el("dt", { text: key }), ...values.map((value) => el("dd", {}, value))));
  };

  /* ---- colours ---- */

  const theme = byId("theme");
  const dark = (on) => {
    document.documentElement.classList.toggle("dark", on);
    theme.setAttribute("aria-pressed", String(on));
  };
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  dark(prefers.matches);
  let chosen = false;
  prefers.addEventListener("change", (event) => { if (!chosen) dark(event.matches); });
  theme.addEventListener("click", () => {
    chosen = true;
    dark(!document.documentElement.classList.contains("dark"));
  });

  /* ---- names ---- */

  /* In the order of bytes, as everything else sorts names: that of code points (RFC 3629, section 1), where strings compare UTF-16 units. */
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const encoder = new TextEncoder();
  const byteString = (bytes) => {
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return text;
  };
  const inBytes = (text) => (/^[\0-\x7F]*$/.test(text) ? text : byteString(encoder.encode(text)));
  const hex2 = (n) => n.toString(16).toUpperCase().padStart(2, "0");
  const bytesOf = (row) => {
    if (row.hex === null) return encoder.encode(row.name);
    const bytes = new Uint8Array(row.hex.length / 2);
    for (let at = 0; at < bytes.length; at++) bytes[at] = parseInt(row.hex.slice(2 * at, 2 * at + 2), 16);
    return bytes;
  };
  const HIDES = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\uFFFD\u2800\\]/u;
  const SHORT = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  /* A code point as it is shown, and whether that is the character itself, which marks can then combine with. `inner`: not at an end. */
  const escaped = (value, inner, hasBase) => {
    const c = String.fromCodePoint(value);
    if (c === " " ? inner : !HIDES.test(c) && (hasBase || !/\p{M}/u.test(c))) return [c, true];
    return [SHORT[c] || `\\u{${value.toString(16).toUpperCase()}}`, false];
  };

  /* ---- a long list: only the rows that are seen are on the page ---- */

  /* Shows rows in #view. `lines`: how many a row has where there is no room for columns; the style says so too. `cells` makes the cells of
     a row, `open` is called with the row that is chosen, and `keys` handles other keys. */
  const virtualList = ({ lines, cells, empty, open, keys }) => {
    const view = byId("view"), tall = byId("tall"), head = byId("head");
    const isNarrow = matchMedia("(max-width: 980px)");
    const rowHeight = () => (isNarrow.matches ? 30 + 22 * lines : 40);
    let ROW = rowHeight();
    /* Browsers stop drawing far below the top of a very tall element; what is taller is scrolled in proportion. */
    const MAX_HEIGHT = 8000000;
    let order = [];
    let selected = -1;
    const drawn = new Map();
    /* Where the list is scrolled to, in pixels of a list that were as tall as it should be. */
    const seenHeight = () => view.clientHeight - head.offsetHeight;
    const scale = () => {
      const full = order.length * ROW, height = Math.min(full, MAX_HEIGHT), seen = seenHeight();
      return full > height ? (full - seen) / (height - seen) : 1;
    };
    const draw = (anew) => {
      if (anew) {
        drawn.clear();
        tall.replaceChildren();
      }
      if (!order.length) {
        tall.replaceChildren(el("div", { role: "row" }, el("p", { class: "empty", role: "gridcell", text: empty })));
        view.removeAttribute("aria-activedescendant");
        return;
      }
      const factor = scale(), offset = view.scrollTop * factor;
      const first = Math.max(0, Math.floor(offset / ROW) - 8);
      const last = Math.min(order.length, Math.ceil((offset + seenHeight()) / ROW) + 8);
      for (const [at, node] of drawn) {
        if (at < first || at >= last) {
          node.remove();
          drawn.delete(at);
        }
      }
      for (let at = first; at < last; at++) {
        let node = drawn.get(at);
        if (!node) {
          node = el("div", { class: "row", role: "row", id: `r${at}`, "aria-rowindex": at + 2 }, ...cells(order[at]));
          drawn.set(at, node);
          tall.append(node);
        }
        node.style.top = `${at * ROW - offset + view.scrollTop}px`;
        node.setAttribute("aria-selected", String(at === selected));
      }
      if (drawn.has(selected)) view.setAttribute("aria-activedescendant", `r${selected}`);
      else view.removeAttribute("aria-activedescendant");
    };
    const select = (at) => {
      selected = Math.min(Math.max(at, 0), order.length - 1);
      const top = selected * ROW, factor = scale(), offset = view.scrollTop * factor;
      if (top < offset) view.scrollTop = top / factor;
      else if (top + ROW > offset + seenHeight()) view.scrollTop = (top + ROW - seenHeight()) / factor;
      draw(false);
    };
    /* Shows these rows, from the first. */
    const show = (rows) => {
      order = rows;
      view.setAttribute("aria-rowcount", String(order.length + 1));
      tall.style.height = `${Math.min(order.length * ROW, MAX_HEIGHT)}px`;
      view.style.height = `${Math.min(600, Math.max(order.length * ROW, 120) + head.offsetHeight)}px`;
      view.scrollTop = 0;
      selected = order.length ? 0 : -1;
      draw(true);
    };
    let waiting = false;
    view.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(false); });
    });
    tall.addEventListener("click", (event) => {
      const node = event.target.closest(".row");
      if (!node || event.defaultPrevented || !order.length) return;
      selected = Number(node.id.slice(1));
      draw(false);
      open(order[selected]);
    });
    isNarrow.addEventListener("change", () => { ROW = rowHeight(); show(order); });
    view.addEventListener("keydown", (event) => {
      /* The buttons in the headings have keys of their own. */
      if (event.target !== view) return;
      const page = Math.floor(seenHeight() / ROW) - 1;
      const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -order.length, End: order.length };
      if (event.key in moves) {
        event.preventDefault();
        select(selected + moves[event.key]);
      } else if ((event.key === "Enter" || event.key === " ") && selected >= 0) {
        event.preventDefault();
        open(order[selected]);
      } else if (keys && selected >= 0) keys(event);
    });
    return {
      show, redraw: () => draw(true), focus: () => view.focus({ preventScroll: true }), selected: () => order[selected],
      move: (by) => select(selected + by),
    };
  };

  return { byId, el, fill, svg, number, plural, share, literal, fact, compare, hex2, bytesOf, byteString, inBytes, escaped, virtualList };
})();
