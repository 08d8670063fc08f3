/* What the page knows of names: how they are shown, read in an encoding, compared and checked. */
const names = (() => {
  const { escaped, bytesOf } = page;

  /* A text as it is shown: nothing in it acts on the page. */
  const show = (text) => {
    const points = [...text];
    const first = points.findIndex((c) => c !== " "), last = points.findLastIndex((c) => c !== " ");
    let shown = "", piece = "", hasBase = false;
    points.forEach((c, at) => {
      [piece, hasBase] = escaped(c.codePointAt(0), first < at && at < last, hasBase);
      shown += piece;
    });
    return shown;
  };
  const ESCAPES = { "\\": "\\", t: "\t", n: "\n", r: "\r" };
  /* What a shown text stands for; or an error in words. */
  const parse = (shown) => {
    let fault = "";
    const text = shown.replace(/\\(?:u\{([0-9A-Fa-f]{1,6})\}|(.?))/gsu, (whole, digits, letter) => {
      const value = parseInt(digits, 16);
      if (digits && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF)) return String.fromCodePoint(value);
      if (!digits && letter in ESCAPES) return ESCAPES[letter];
      fault = `${whole} is no escape; a backslash is \\\\`;
      return "";
    });
    return { text, fault };
  };

  /* ---- encodings ---- */

  const strict = (label) => {
    const decoder = new TextDecoder(label, { fatal: true, ignoreBOM: true });
    return (bytes) => { try { return decoder.decode(bytes); } catch { return null; } };
  };
  const utf8 = strict("utf-8");
  /* The old name as text; null if it is not UTF-8. */
  const oldText = (row) => {
    if (row.text === undefined) row.text = row.hex === null ? row.name : utf8(bytesOf(row));
    return row.text;
  };
  /* Reads bytes by the table of the upper half of a code page, or, without one, as browsers read the encoding; null if they are none. */
  const reader = ([label, table]) => {
    if (!table) return strict(label);
    const upper = [...table];
    return (bytes) => {
      let text = "";
      for (const byte of bytes) {
        const c = byte < 0x80 ? String.fromCharCode(byte) : upper[byte - 0x80];
        if (c === "\uFFFD") return null;
        text += c;
      }
      return text;
    };
  };

  /* ---- differences ---- */

  const TOKEN = /\\x[0-9A-F]{2}|\\u\{[0-9A-F]+\}|\\.|./gsu;
  const MOST = 70000;
  /* Where two shown names differ: for each, its parts with whether the part is in the other too. */
  const differences = (old, made) => {
    const a = old.match(TOKEN) || [], b = made.match(TOKEN) || [];
    let begin = 0, end = 0;
    while (begin < a.length && begin < b.length && a[begin] === b[begin]) begin++;
    while (end < a.length - begin && end < b.length - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
    const x = a.slice(begin, a.length - end), y = b.slice(begin, b.length - end);
    const sameX = new Array(x.length).fill(false), sameY = new Array(y.length).fill(false);
    if (x.length * y.length <= MOST) {
      const longest = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
      for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) longest[i][j] = x[i] === y[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
      for (let i = 0, j = 0; i < x.length && j < y.length;) {
        if (x[i] === y[j]) { sameX[i++] = true; sameY[j++] = true; }
        else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
        else j++;
      }
    }
    const parts = (tokens, same) => {
      const found = [];
      const add = (text, isSame) => {
        if (!text) return;
        if (found.length && found.at(-1)[1] === isSame) found.at(-1)[0] += text;
        else found.push([text, isSame]);
      };
      add(tokens.slice(0, begin).join(""), true);
      tokens.slice(begin, tokens.length - end).forEach((token, at) => add(token, same[at]));
      add(tokens.slice(tokens.length - end).join(""), true);
      return found;
    };
    return [parts(a, sameX), parts(b, sameY)];
  };

  /* ---- checks: fix apply makes all of them again, and others ---- */

  const PLAIN = {
    "c0-control": /[\x01-\x1F]/, "delete": /\x7F/, "c1-control": /[\x80-\x9F]/, "line-separator": /[\u2028\u2029]/,
    "byte-order-mark": /\uFEFF/, "bidi-control": /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/, "noncharacter": /\p{Noncharacter_Code_Point}/u,
    "private-use": /\p{Co}/u, "replacement-character": /\uFFFD/, "non-ascii-space": /[^\P{Zs} ]/u,
    "leading-space": /^ /, "trailing-space": / $/, "leading-dash": /^-/, "leading-tilde": /^~/, "trailing-dot": /\.$/ };
  const encoder = new TextEncoder();
  const lengths = { bytes: (text) => encoder.encode(text).length, utf16: (text) => text.length, code_points: (text) => [...text].length };
  const parts = {
    whole: (text, word) => text === word, prefix: (text, word) => text.startsWith(word), suffix: (text, word) => text.endsWith(word),
    anywhere: (text, word) => text.includes(word), base: (text, word) => text.split(/[.:]/)[0].replace(/ +$/, "") === word };
  const refuses = (limit, c) =>
    limit.none_of !== undefined ? limit.none_of.includes(c) : limit.all_of !== undefined ? !limit.all_of.includes(c)
      : limit.none_in ? limit.none_in[0] <= c.codePointAt(0) && c.codePointAt(0) <= limit.none_in[1] : false;
  const lower = (text) => text.replace(/[A-Z]/g, (c) => c.toLowerCase());
  /* Why a rule objects to a name; empty if it does not. */
  const objection = (limit, text) => {
    const bad = [...new Set([...text].filter((c) => refuses(limit, c)))];
    if (bad.length) return bad.map(show).join(" ");
    if (limit.words && limit.words[1].some((word) => parts[limit.words[0]](lower(text), lower(word)))) return show(text);
    if (limit.length) {
      const [most, unit, noun] = limit.length, length = lengths[unit](text);
      return length > most ? `${length} ${noun}, at most ${most}` : "";
    }
    if (limit.form) return text.normalize(limit.form) !== text ? `not in ${limit.form}` : "";
    return "plain" in limit && PLAIN[limit.rule] && PLAIN[limit.rule].test(text) ? "yes" : "";
  };

  return { show, parse, utf8, oldText, reader, differences, objection, refuses, PLAIN };
})();
