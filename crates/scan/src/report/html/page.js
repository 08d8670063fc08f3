/* Draws the report from its two blocks of data. */
(() => {
  const { byId, el, fill, svg, number, plural, share, literal, fact, compare, hex2, bytesOf, byteString, inBytes, escaped, virtualList } = page;
  const run = JSON.parse(byId("run").textContent);
  const elements = JSON.parse(byId("findings").textContent);
  byId("findings").textContent = "";

  /* ---- the data ---- */

  const { summary, rules, sets } = run;
  const groups = new Map();
  const rows = [];
  let directory = "";
  for (const element of elements) {
    if (typeof element === "string") directory = element;
    else if (!Array.isArray(element)) groups.set(element.id, element);
    else {
      const [name, hex, reasons, fix, confidence, mark, owner, note] = element;
      rows.push({ name, hex, dir: directory, reasons, fix: fix || "", confidence, guess: confidence === "guess", mark, owner: owner || "", note: note || "", error: reasons.some((r) => r[1] === 1), find: "" });
    }
  }
  elements.length = 0;
  const ruleNames = (row) => [...new Set(row.reasons.map((reason) => rules[reason[0]].name))];
  for (const row of rows) {
    row.rules = ruleNames(row);
    row.find = `${row.dir}/${row.name}\n${row.rules.join(" ")}\n${row.reasons.map((r) => r[5]).join("\n")}\n${row.fix}\n${row.owner}\n${row.note}\n${row.guess ? "guess" : ""}`.toLowerCase();
  }

  /* ---- what was found ---- */

  document.title = run.title;
  byId("title").textContent = run.title;
  const LISTED = 12;
  fact("Scanned", ...run.scanned.slice(0, LISTED).map(literal),
    ...(run.scanned.length > LISTED ? [`and ${number.format(run.scanned.length - LISTED)} more`] : []));
  fact("Host", ...(run.host ? [literal(run.host)] : []));
  fact("Date", el("time", { datetime: run.date, text: `${run.date.slice(0, 16).replace("T", " ")} UTC` }));
  fact("Path on the target", ...(run.prefix ? [literal(run.prefix)] : []));
  fact("Checked against", summary.profiles.join(", "));
  fact("Not marked as UTF-8", ...(summary.unmarked || []).map((names) =>
    `${names.container || "archive"}: ${plural(names.members, "member", "members")} read as ${names.encoding} (${names.confidence === "certain" ? "as asked" : names.confidence})`));
  if (summary.baseline_accepted !== undefined) fact("Baseline", `${plural(summary.baseline_accepted, "known finding", "known findings")} not listed, counted for targets`);
  fact("Tool", `namegate ${summary.namegate}, Unicode ${summary.unicode}`);
  const violationsOf = (concern) => rules.filter((r) => r.concern === concern).reduce((sum, r) => sum + r.violations, 0);
  if (run.incomplete) {
    byId("incomplete").hidden = false;
    byId("incomplete").textContent = `This report is incomplete: ${run.incomplete}.`;
  }
  const verdict = byId("verdict");
  const verdictOf = () => {
    if (summary.rejected) {
      return ["error", `${plural(summary.rejected, "name has", "names have")} to change`,
        summary.names < summary.findings ? "How many names were checked is not known." : `${(share(summary.rejected, summary.names) * 100).toFixed(summary.rejected * 20 < summary.names ? 2 : 1)} % of ${plural(summary.names, "name", "names")}` +
        `${summary.directories ? ` in ${plural(summary.directories, "directory", "directories")}` : ""} break a rule that rejects them.`];
    }
    if (summary.warned) return ["warn", "No name is rejected", `${plural(summary.warned, "name has", "names have")} warnings.`];
    if (run.incomplete) return ["warn", "The scan is incomplete", "Every name that was checked is valid."];
    if ((summary.unmarked || []).some((names) => names.confidence === "guess")) return ["warn", "All names are valid, if their encoding is", "Names that are not marked as UTF-8 were read in a guessed encoding."];
    if (summary.baseline_accepted) return ["good", "No new findings", `${plural(summary.baseline_accepted, "known finding is", "known findings are")} accepted by the baseline.`];
    return ["good", "All names are valid", `No rule is broken by any of ${plural(summary.names, "name", "names")}.`];
  };
  const [tone, say, why] = verdictOf();
  const figure = (key, value, colour) =>
    el("div", { class: value && colour ? `t-${colour}` : "" },
      el("div", { class: `n ${value ? (colour ? "toned" : "") : "zero"}`, text: number.format(value) }), el("div", { class: "k", text: key }));
  verdict.append(
    el("div", { class: `t-${tone}` }, el("div", { class: "say", text: say }), el("p", { class: "why", text: why })),
    figure("names rejected", summary.rejected, "error"),
    figure("names with warnings only", summary.warned, "warn"),
    figure("names with security violations", summary.insecure, "security"),
    figure("violations", summary.violation_count),
    figure("groups of colliding names", summary.collisions),
    figure("names checked", summary.names));

  /* ---- readiness ---- */

  const FATES = [
    ["refused", "refused", "s1", "names that the target refuses"], ["changed", "changed", "s2", "names that the target stores or shows as another name"],
    ["merged", "merged", "s3", "names that become the same as another name in their directory"], ["path_too_long", "path too long", "s4", "names whose path is too long for the target, or for some of its programs"],
    ["left_behind", "left behind", "s6", "files that programs of the target skip on purpose"],
    ["warned", "warnings only", "s5", "names that arrive unchanged, with a warning"]];
  const READY = ["ready", "ready", "s0", "names that arrive unchanged"];
  const PILLS = { "ready": ["p-good", "ready"], "doubtful": ["p-warn", "ready, with warnings"], "uncertain": ["p-warn", "uncertain"], "incomplete": ["p-warn", "incomplete"], "not-ready": ["p-error", "not ready"] };
  for (const target of summary.targets) {
    const [pill, words] = PILLS[target.verdict];
    /* All names, those that are ready first. A few bad ones among very many can still be seen. */
    const WHOLE = 1000, LEAST = 8;
    const widths = FATES.map(([key]) => (target[key] ? Math.max(share(target[key], summary.names) * WHOLE, LEAST) : 0));
    const bad = widths.reduce((sum, width) => sum + width, 0);
    const most = WHOLE - (target.ready ? LEAST : 0);
    const parts = widths.map((width) => (bad > most ? width * most / bad : width));
    let x = WHOLE - parts.reduce((sum, width) => sum + width, 0);
    const bar = svg("svg", { class: "bar", viewBox: `0 0 ${WHOLE} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
    if (target.ready) bar.append(svg("rect", { x: 0, width: x, height: 10, class: "s0" }));
    FATES.forEach(([, , colour], at) => {
      if (parts[at]) bar.append(svg("rect", { x, width: parts[at], height: 10, class: colour }));
      x += parts[at];
    });
    byId("readiness").append(el("article", { class: "card" },
      el("h3", {}, target.target, el("span", { class: `pill ${pill}`, text: words })),
      el("p", { class: "title", text: run.titles[target.target] || "" }),
      bar,
      el("ul", { class: "fates" }, ...[READY, ...FATES].map(([key, label, colour, title]) =>
        el("li", { class: target[key] ? "" : "zero", title }, el("span", { class: `dot ${colour}` }), label, el("b", { text: number.format(target[key]) }))))));
  }

  /* ---- charts ---- */

  const filters = { search: byId("search"), concern: byId("concern"), severity: byId("severity"), rule: byId("rule"), profile: byId("profile") };
  const toFindings = () => { byId("list").scrollIntoView(); list.focus(); };
  const chart = (title, entries, choose) => {
    const card = el("article", { class: "card chart" }, el("h3", { text: title }));
    byId("charts").append(card);
    if (!entries.length) {
      card.append(el("p", { class: "none", text: "no findings" }));
      return;
    }
    const STEP = 36, WIDTH = 540;
    const most = Math.max(...entries.map((e) => e.count));
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${entries.length * STEP}`, role: choose ? "group" : "list", "aria-label": title });
    entries.forEach((entry, at) => {
      const y = at * STEP;
      const label = entry.label.length > 62 ? `…${entry.label.slice(-61)}` : entry.label;
      const go = () => { choose(entry); toFindings(); };
      const group = svg("g", {
        class: "entry", role: choose ? "button" : "listitem", tabindex: choose ? 0 : null,
        onclick: choose && go,
        onkeydown: choose && ((event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } }),
      },
      label === entry.label ? null : svg("title", { text: `${entry.label}: ${number.format(entry.count)}` }),
      svg("rect", { class: "hit", x: -8, y, width: WIDTH + 16, height: STEP - 2, rx: 6 }),
      svg("text", { class: "label", x: 0, y: y + 17, text: label, direction: "ltr", "unicode-bidi": "isolate" }),
      svg("text", { class: "count", x: WIDTH, y: y + 17, text: number.format(entry.count) }),
      svg("rect", { class: "track", x: 0, y: y + 24, width: WIDTH, height: 5, rx: 2.5 }),
      svg("rect", { class: entry.colour, x: 0, y: y + 24, width: Math.max(4, share(entry.count, most) * WIDTH), height: 5, rx: 2.5 }));
      drawing.append(group);
    });
    card.append(drawing);
  };
  const TOP = 10;
  const broken = rules.filter((r) => r.violations).sort((a, b) => b.violations - a.violations);
  const ruleEntries = (concern) => broken.filter((r) => r.concern === concern).slice(0, TOP)
    .map((r) => ({ label: r.name, count: r.violations, colour: concern === "security" ? "f-security" : r.error ? "f-error" : "f-warn" }));
  const chooseRule = (entry) => { reset(); filters.rule.value = entry.label; apply(); };
  chart(`Security rules, ${plural(violationsOf("security"), "violation", "violations")}`, ruleEntries("security"), chooseRule);
  chart(`Portability rules, ${plural(violationsOf("portability"), "violation", "violations")}`, ruleEntries("portability"), chooseRule);
  chart("Directories with the most names with findings", run.directories.slice(0, TOP).map(([label, count]) => ({ label, count, colour: "f-accent" })),
    (entry) => { reset(); only = entry.label; apply(); });
  chart("Names with findings by script", Object.entries(run.scripts).map(([label, count]) => ({ label: label.replaceAll("_", " "), count, colour: "f-accent" }))
    .sort((a, b) => b.count - a.count).slice(0, TOP), null);

  /* ---- the table: only the rows that are seen are on the page ---- */

  let only = null;
  let order = [];
  let sort = { key: "", down: false };

  for (const rule of broken) filters.rule.append(el("option", { value: rule.name, text: `${rule.name} (${plural(rule.names, "name", "names")})` }));
  for (const profile of [...new Set(sets.flatMap(([all]) => all))].sort()) filters.profile.append(el("option", { value: profile, text: profile }));

  const keys = {
    name: (row) => (row.hex === null ? inBytes(row.name) : byteString(bytesOf(row))), dir: (row) => inBytes(row.dir), owner: (row) => inBytes(row.owner),
    rules: (row) => row.rules.join(" "), fix: (row) => inBytes(row.fix) };
  if (run.owners) {
    document.documentElement.classList.add("owners");
    byId("by-owner").hidden = false;
  }
  const apply = () => {
    const words = filters.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { concern: { value: concern }, severity: { value: severity }, rule: { value: rule }, profile: { value: profile } } = filters;
    const concerned = rules.map((r) => r.concern === concern);
    const objecting = sets.map(([all]) => all.includes(profile));
    order = [];
    for (let at = 0; at < rows.length; at++) {
      const row = rows[at];
      if (only !== null && row.dir !== only) continue;
      if (severity !== "" && row.error !== (severity === "1")) continue;
      if (rule && !row.rules.includes(rule)) continue;
      if (concern && !row.reasons.some((r) => concerned[r[0]])) continue;
      if (profile && !row.reasons.some((r) => objecting[r[4]])) continue;
      if (words.every((word) => row.find.includes(word))) order.push(at);
    }
    if (sort.key) {
      const key = keys[sort.key];
      const keyed = order.map((at) => [key(rows[at]), at]);
      keyed.sort((a, b) => (sort.down ? compare(b[0], a[0]) : compare(a[0], b[0])) || a[1] - b[1]);
      order = keyed.map((pair) => pair[1]);
    }
    const filtered = words.length || concern || severity || rule || profile || only !== null;
    byId("clear").hidden = !filtered;
    byId("shown").textContent = (filtered ? `${number.format(order.length)} of ${plural(rows.length, "name", "names")}` : plural(rows.length, "name", "names")) +
      (only !== null ? ` in ${only}` : "");
    list.show(order);
  };
  const reset = () => {
    for (const control of Object.values(filters)) control.value = "";
    only = null;
  };

  const pill = (name) => {
    const rule = rules.find((r) => r.name === name);
    return el("span", { class: `pill ${rule.concern === "security" ? "p-security" : "p-plain"}`, text: name });
  };
  const rulesText = (row) => [row.note, ...row.rules].filter(Boolean).join(", ");
  const fixText = (row) => (row.guess ? `${row.fix} (guess)` : row.fix);
  const cells = (row) => [
    el("div", { class: "c-name", role: "gridcell", title: row.name }, el("span", { class: row.error ? "sign e" : "sign", role: "img", "aria-label": row.error ? "error" : "warning" }), el("bdi", { class: "name", text: row.name })),
    el("div", { class: "c-dir", role: "gridcell", title: row.dir }, el("bdi", { class: "name", text: row.dir })),
    run.owners ? el("div", { class: "c-owner", role: "gridcell", title: row.owner }, el("bdi", { class: "name", text: row.owner })) : null,
    el("div", { class: "c-rules", role: "gridcell", title: rulesText(row) }, row.note ? el("span", { class: "pill p-error", text: row.note }) : null, ...row.rules.map(pill)),
    el("div", { class: "c-fix", role: "gridcell", title: fixText(row) }, row.guess ? el("span", { class: "pill p-warn", text: "guess" }) : null, el("bdi", { class: "name", text: row.fix })),
  ].filter(Boolean);
  const list = virtualList({
    lines: run.owners ? 4 : 3, cells: (at) => cells(rows[at]), empty: rows.length ? "No finding matches." : "No findings.", open: (at) => explain(rows[at]),
  });
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      sort = sort.key !== key ? { key, down: false } : sort.down ? { key: "", down: false } : { key, down: true };
      for (const other of document.querySelectorAll("[data-sort]")) {
        const heading = other.parentElement;
        if (other.dataset.sort === sort.key) heading.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
        else heading.removeAttribute("aria-sort");
      }
      apply();
    });
  }
  let typing = 0;
  filters.search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(apply, rows.length > 20000 ? 120 : 0);
  });
  filters.search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); list.focus(); }
  });
  for (const key of ["concern", "severity", "rule", "profile"]) filters[key].addEventListener("change", apply);
  byId("clear").addEventListener("click", () => { reset(); apply(); filters.search.focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName) && !detail.open) {
      event.preventDefault();
      filters.search.focus();
    }
  });

  /* ---- a name, byte by byte (ISO/IEC 10646-1 Annex R for the structure, RFC 3629 for the verdict) ---- */

  const detail = byId("detail");
  const announced = (byte) => (byte < 0x80 ? 1 : byte < 0xC0 ? 0 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF8 ? 4 : byte < 0xFC ? 5 : byte < 0xFE ? 6 : 0);
  const LEAST = [0, 0, 0x80, 0x800, 0x10000, 0x200000, 0x4000000];
  /* The sequences that the bytes form: where, which value, and whether RFC 3629 allows it. */
  const sequences = (bytes) => {
    const found = [];
    for (let at = 0; at < bytes.length;) {
      const length = announced(bytes[at]);
      let end = at + 1;
      while (end < at + length && end < bytes.length && (bytes[end] & 0xC0) === 0x80) end++;
      const whole = length > 0 && end - at === length;
      let value = null;
      if (whole) {
        value = length === 1 ? bytes[at] : bytes[at] & (0x7F >> length);
        for (let next = at + 1; next < end; next++) value = value * 64 + (bytes[next] & 0x3F);
      }
      const wrong = length === 0 ? (bytes[at] >= 0xFE ? "never used" : "no lead byte")
        : !whole ? "truncated"
          : value < LEAST[length] ? "overlong"
            : value >= 0xD800 && value <= 0xDFFF ? "surrogate"
              : value > 0x10FFFF ? (length > 4 ? "five or six bytes" : "above U+10FFFF") : null;
      found.push({ start: at, end, length, value, wrong });
      at = end;
    }
    return found;
  };
  const heading = (row, bytes, found) => {
    const title = el("h2", { class: "name", id: "detail-title", dir: "ltr" });
    const weight = (at) => row.reasons.reduce((most, [, error, start, end]) =>
      start <= at.start && at.end <= end && end - start < bytes.length ? Math.max(most, error + 1) : most, 0);
    const [first, last] = [bytes.findIndex((b) => b !== 32), bytes.findLastIndex((b) => b !== 32)];
    let hasBase = false, open = null, level = 0;
    for (const sequence of found) {
      let piece = "";
      if (sequence.wrong) {
        hasBase = false;
        for (const byte of bytes.slice(sequence.start, sequence.end)) piece += `\\x${hex2(byte)}`;
      } else [piece, hasBase] = escaped(sequence.value, first < sequence.start && sequence.start < last, hasBase);
      const now = weight(sequence);
      if (open === null || now !== level) {
        open = now ? el("mark", { class: now === 1 ? "w" : "" }) : el("span");
        level = now;
        title.append(open);
      }
      open.append(piece);
    }
    if (!bytes.length) title.append("(empty)");
    return title;
  };
  const spanWords = (start, end) => (end - start === 1 ? `byte ${start}` : `bytes ${start}..${end}`);
  const reason = ([ruleAt, error, start, end, set, message, group]) => {
    const rule = rules[ruleAt];
    const [all, refuse] = sets[set];
    const warn = all.filter((name) => !refuse.includes(name));
    const by = [refuse.length ? `rejected by ${refuse.join(", ")}` : "", warn.length ? `warning from ${warn.join(", ")}` : ""];
    const node = el("article", { class: "reason" },
      el("div", { class: "first" }, el("b", { text: rule.name }), el("span", { class: `pill ${error ? "p-error" : "p-warn"}`, text: error ? "error" : "warning" }),
        el("span", { class: `pill ${rule.concern === "security" ? "p-security" : "p-plain"}`, text: rule.concern }), el("span", { class: "where", text: spanWords(start, end) })),
      el("p", {}, el("bdi", { dir: "ltr", text: message })),
      el("p", { class: "small", text: `${by.filter(Boolean).join("; ")}. Source: ${rule.source}` }));
    if (groups.has(group)) {
      const { count, members } = groups.get(group);
      node.append(el("ul", { "aria-label": "colliding names" }, ...members.map((name) => el("li", {}, el("bdi", { class: "name", text: name })))));
      if (count > members.length) node.append(el("p", { class: "small", text: `and ${number.format(count - members.length)} more` }));
    }
    return node;
  };
  const EXPLAINED = 1024;
  const byteTable = (row, bytes, found) => {
    const body = el("tbody");
    for (const { start, end, length, value, wrong } of found) {
      if (start >= EXPLAINED) break;
      const glyph = value === null ? undefined : run.glyphs[value.toString(16).toUpperCase()];
      for (let at = start; at < end; at++) {
        const byte = bytes[at], first = at === start;
        const bits = byte.toString(2).padStart(8, "0");
        const cut = first ? (length === 1 ? 1 : length === 0 ? (byte >= 0xFE ? 8 : 2) : length + 1) : 2;
        const role = !first ? `continuation ${at - start} of ${length - 1}` : length === 1 ? "single" : length === 0 ? (byte >= 0xFE ? "invalid" : "unexpected continuation") : `lead of ${length}`;
        const worst = row.reasons.reduce((most, [, error, from, to]) => (from <= at && at < to && to - from < bytes.length ? Math.max(most, error + 1) : most), 0);
        const last = el("td");
        if (first) {
          if (wrong) fill(last, null, [el("span", { class: "bad", text: wrong }), glyph || value !== null ? el("div", { class: "small", text: `would be ${glyph ? glyph[0] : value.toString(16).toUpperCase()}` }) : null]);
          else fill(last, null, [el("span", { text: glyph ? glyph[0] : "" }), glyph ? el("div", { class: "small", text: `${glyph[1].replaceAll("_", " ")}, ${glyph[2].replaceAll("_", " ")}` }) : null]);
        }
        body.append(el("tr", { class: `${first ? "first" : ""} ${worst === 2 ? "e" : worst === 1 ? "w" : ""}` },
          el("td", { class: "at", text: at }), el("td", { text: hex2(byte) }),
          el("td", {}, el("span", { class: "m", text: bits.slice(0, cut) }), cut < 8 ? `·${bits.slice(cut)}` : ""),
          el("td", { text: role }),
          el("td", { text: first && value !== null ? (value > 0x10FFFF ? value.toString(16).toUpperCase().padStart(8, "0") : `U+${value.toString(16).toUpperCase().padStart(4, "0")}`) : "" }),
          last));
      }
    }
    return el("table", { class: "bytes" },
      el("thead", {}, el("tr", {}, ...["at", "hex", "bits", "role", "value", "code point"].map((text) => el("th", { scope: "col", text })))), body);
  };
  const explain = (row) => {
    const bytes = bytesOf(row), found = sequences(bytes);
    const bad = found.filter((s) => s.wrong).length;
    const sheet = el("div", { class: "sheet" },
      el("button", { type: "button", class: "close", "aria-label": "Close", text: "×", onclick: () => detail.close() }),
      heading(row, bytes, found),
      el("p", { class: "at" }, el("bdi", { dir: "ltr", text: [row.dir && `in ${row.dir}`, row.mark, row.owner && `owned by ${row.owner}`].filter(Boolean).join(", ") })),
      row.note ? el("p", { class: "encoding", text: row.note }) : null,
      ...row.reasons.slice(0, 40).map(reason),
      row.reasons.length > 40 ? el("p", { class: "note", text: `and ${number.format(row.reasons.length - 40)} more violations` }) : null);
    if (row.fix) sheet.append(el("h3", { text: "Suggested name" }), el("p", { class: "fix" }, el("bdi", { class: "name", text: row.fix })), el("p", { class: "small", text: `${row.confidence}; not in use in the directory` }));
    sheet.append(el("h3", { text: `Bytes: ${number.format(bytes.length)}, ${bad ? plural(bad, "ill-formed sequence", "ill-formed sequences") : "well-formed UTF-8"}` }), byteTable(row, bytes, found));
    if (bytes.length > EXPLAINED) sheet.append(el("p", { class: "note", text: `The table shows the first ${EXPLAINED} bytes.` }));
    sheet.append(el("h3", { text: "Exact bytes" }), el("p", { class: "hex", text: [...bytes].map(hex2).join(" ") }));
    detail.replaceChildren(sheet);
    detail.showModal();
    detail.scrollTop = 0;
  };
  detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });
  detail.addEventListener("close", list.focus);

  /* ---- the rest ---- */

  if (summary.findings > rows.length) {
    byId("truncated").hidden = false;
    byId("truncated").textContent = `The table has the first ${number.format(rows.length)} of ${number.format(summary.findings)} names with findings; the numbers above count all of them.`;
  }
  if (run.faults.length) {
    byId("faults").hidden = false;
    byId("faults").querySelector("ul").append(...run.faults.slice(0, 1000).map(({ message }) => el("li", {}, el("bdi", { dir: "ltr", text: message }))));
  }
  const PRINTED = 2000;
  addEventListener("beforeprint", () => {
    const cell = (text) => el("td", {}, el("bdi", { class: "name", text }));
    const columns = ["Name", "Directory", run.owners ? "Owner" : null, "Rules", "Suggested name"].filter(Boolean);
    byId("printed").replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, ...columns.map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...order.slice(0, PRINTED).map((at) => rows[at]).map((row) => el("tr", { class: row.error ? "e" : "w" },
        cell(row.name), cell(row.dir), run.owners ? cell(row.owner) : null, el("td", { text: rulesText(row) }), cell(fixText(row)))))),
    order.length > PRINTED ? el("p", { text: `and ${number.format(order.length - PRINTED)} more` }) : "");
  });
  addEventListener("afterprint", () => byId("printed").replaceChildren());
  byId("about").textContent = "Names are shown escaped: \\x for bytes that are not UTF-8, \\u for characters that are invisible or control the display.";
  apply();
})();
