/* Draws the page from its two blocks of data, and keeps what the person decides. */
(() => {
  const { byId, el, number, plural, share, literal, fact, compare, bytesOf, byteString, inBytes, hex2, virtualList } = page;
  const { show, parse, oldText, reader, differences, objection, refuses, PLAIN } = names;
  const run = JSON.parse(byId("run").textContent);
  const elements = JSON.parse(byId("renames").textContent);
  byId("renames").textContent = "";
  const LEVELS = ["certain", "likely", "guess"];
  const { texts, limits } = run;

  /* ---- the data ---- */

  const rows = [], dirs = [], byNumber = new Map();
  for (const element of elements) {
    if (typeof element === "string") dirs.push({ path: element, taken: null, rows: [], news: new Map(), gone: new Set() });
    else if (!Array.isArray(element)) dirs.at(-1).taken = element.taken;
    else {
      const [id, name, hex, made, level, reading, evidence, rules, others, isDirectory] = element;
      const dir = dirs.at(-1);
      const error = rules.some((rule) => run.rules[rule][2] === 1);
      const row = { id, name, hex, made, level, reading: texts[reading], evidence: texts[evidence], rules, others, isDirectory, dir, error, find: "" };
      dir.rows.push(row);
      byNumber.set(id, row);
      rows.push(row);
    }
  }
  elements.length = 0;
  const ruleNames = (row) => row.rules.map((rule) => run.rules[rule][0]);
  const label = (row) => LEVELS[row.level];
  const findable = (row) => (row.find ||= `${row.dir.path}/${row.name}\n${show(row.made)}\n${ruleNames(row).join(" ")}\n${row.reading}\n${row.evidence}\n${label(row)}`.toLowerCase());

  /* ---- what is decided ---- */

  /* A decision: the name that the entry gets, null for the one that it has, and whether the person gave it. */
  const LEAVE = { kind: "leave", name: null };
  const accept = (row) => ({ kind: "accept", name: row.made });
  const rename = (name) => ({ kind: "rename", name });
  const decided = new Map(), past = [];
  let isSaved = true;
  const kindOf = (row) => (decided.has(row) ? decided.get(row).kind : "undecided");
  const nameOf = (row) => (decided.has(row) ? decided.get(row).name : row.made);

  const same = limits.filter((limit) => limit.same).map((limit) => limit.same);
  const form = same.map((one) => one.form).find(Boolean);
  const folds = same.some((one) => one.fold);
  /* Two names with the same key are one name for the targets. */
  const keyOf = (name) => {
    const text = form ? name.normalize(form) : name;
    return folds ? text.toUpperCase().toLowerCase() : text;
  };
  const count = (map, key, by) => {
    const n = (map.get(key) || 0) + by;
    if (n) map.set(key, n); else map.delete(key);
  };
  const set = (row, decision) => {
    const { dir } = row, before = decided.get(row);
    if (before && before.name !== null) {
      count(dir.news, keyOf(before.name), -1);
      dir.gone.delete(oldText(row));
    }
    if (decision && decision.name !== null) {
      count(dir.news, keyOf(decision.name), 1);
      dir.gone.add(oldText(row));
    }
    if (decision) decided.set(row, decision); else decided.delete(row);
  };
  /* Decides for rows at once: one undo takes all of it back. */
  const decide = (pairs) => {
    if (!pairs.length) return;
    past.push(pairs.map(([row]) => [row, decided.get(row)]));
    for (const [row, decision] of pairs) set(row, decision);
    isSaved = false;
    changed();
  };
  const undo = () => {
    const last = past.pop();
    if (!last) return;
    for (const [row, before] of last) set(row, before);
    isSaved = false;
    changed();
  };

  /* ---- checks ---- */

  const existing = (dir) => {
    if (dir.keys || !dir.taken) return dir.keys;
    dir.keys = new Map();
    for (const name of dir.taken) {
      const key = keyOf(name);
      if (dir.keys.has(key)) dir.keys.get(key).push(name); else dir.keys.set(key, [name]);
    }
    return dir.keys;
  };
  /* Whether a name is in use in the directory, if it is for this row. */
  const conflict = (row, name) => {
    const key = keyOf(name), { dir } = row, own = decided.get(row);
    if ((dir.news.get(key) || 0) - (own && own.name !== null && keyOf(own.name) === key ? 1 : 0) > 0) return "another entry here gets this name, or one that is the same for the targets";
    const keys = existing(dir);
    const there = keys && (keys.get(key) || []).find((one) => one !== oldText(row) && !dir.gone.has(one));
    return there === undefined || keys === null || keys === undefined ? "" : `${show(there)} is in this directory`;
  };
  /* What is wrong with a name: errors, and what targets only advise against. */
  const check = (row, name) => {
    const faults = [], doubts = [];
    if (!name.isWellFormed()) faults.push("a lone surrogate is not a character");
    const pieces = row.name.includes("\\") && !row.isDirectory ? name.split("/") : [name];
    for (const piece of pieces) {
      if (!piece) faults.push("a name cannot be empty");
      else if (piece === "." || piece === "..") faults.push(`${piece} is a directory itself`);
      else if (/[/\0]/.test(piece)) faults.push("a name contains no / and no NUL");
      for (const limit of limits) {
        const why = objection(limit, piece);
        if (!why) continue;
        const rule = run.rules.find((one) => one[0] === limit.rule);
        const words = `${limit.rule}: ${why === "yes" ? rule[1] : why}`;
        const into = limit.error ? faults : doubts;
        if (!into.includes(words)) into.push(words);
      }
    }
    if (name === oldText(row)) doubts.push("the entry has this name: it stays as it is");
    const taken = conflict(row, name);
    if (taken) faults.push(taken);
    return { faults, doubts };
  };

  /* ---- the head ---- */

  fact("Plan", literal(run.plan.name), `SHA-256 ${run.plan.sha256.slice(0, 12)}…`);
  fact("Made", el("time", { datetime: run.created, text: `${run.created.slice(0, 16).replace("T", " ")} UTC` }));
  fact(run.roots.length === 1 ? "Tree" : "Trees", ...run.roots.slice(0, 8).map(literal), ...(run.roots.length > 8 ? [`and ${number.format(run.roots.length - 8)} more`] : []));
  if (run.profiles.length) fact("Checked against", run.profiles.join(", "));
  fact("Encoding", run.encoding === "auto" ? "guessed for each directory" : run.encoding);
  const KINDS = [["accept", "accepted"], ["rename", "changed"], ["leave", "left"], ["undecided", "undecided"]];
  const progress = () => {
    const counts = { accept: 0, rename: 0, leave: 0, undecided: rows.length - decided.size };
    for (const { kind } of decided.values()) counts[kind]++;
    byId("decided").textContent = `${number.format(decided.size)} of ${number.format(rows.length)} decided`;
    byId("bar").replaceChildren(...KINDS.slice(0, 3).filter(([kind]) => counts[kind]).map(([kind]) => {
      const part = el("span", { class: `d-${kind}` });
      part.style.width = `${Math.max(0.4, share(counts[kind], rows.length) * 100)}%`;
      return part;
    }));
    byId("counts").replaceChildren(...KINDS.map(([kind, words]) => el("li", {}, el("span", { class: `dot d-${kind}` }), `${words} `, el("b", { text: number.format(counts[kind]) }))));
    byId("undo").disabled = !past.length;
  };
  byId("next").append("When it is saved: ", el("code", { text: run.is_archive ? `namegate fix archive ${run.roots[0]} -o COPY --plan ${run.plan.name} --decisions decisions.jsonl` : `namegate fix apply ${run.plan.name} --decisions decisions.jsonl` }),
    run.is_archive ? " writes the copy. What is undecided keeps its name." : " shows what it would do; --yes does it. What is undecided stays as it is.");
  const say = (words) => {
    byId("message").hidden = !words;
    byId("message").textContent = words;
  };

  /* ---- groups ---- */

  /* Readings that are no encodings, in words. */
  const READINGS = { repair: "repair: what targets refuse is replaced", number: "number: targets would merge it with another name", escape: "escape: bytes that nothing explains are written out", structure: "structure: only so it is UTF-8" };
  const inWords = (reading) => READINGS[reading] || reading;

  const GROUPS = 60, SAMPLE = 3;
  const keysBy = {
    reading: (row) => [row.reading], rule: (row) => (row.rules.length ? [...new Set(ruleNames(row))] : ["no rule: asked for by an option"]),
    dir: (row) => [row.dir.path], label: (row) => [label(row)] };
  const marked = (parts, extra) => el("bdi", { class: `name ${extra || ""}` }, ...parts.map(([text, isSame]) => (isSame ? text : el("mark", { text }))));
  const pair = (row) => {
    const [old, made] = differences(row.name, show(nameOf(row) ?? row.made));
    return el("div", {}, marked(old), " → ", marked(made));
  };
  const groupsNow = () => {
    const found = new Map(), by = byId("by").value;
    for (const row of rows) {
      for (const key of keysBy[by](row)) {
        if (!found.has(key)) found.set(key, []);
        found.get(key).push(row);
      }
    }
    /* Names with errors first, then those that need a person most. */
    const weight = (members) => members.reduce((sum, row) => sum + (row.error ? 1 : 0), 0);
    return [...found].map(([key, members]) => ({ key, members, worst: Math.max(...[0, 1, 2].filter((level) => members.some((row) => row.level === level))), errors: weight(members) }))
      .sort((a, b) => (b.errors > 0) - (a.errors > 0) || b.worst - a.worst || b.members.length - a.members.length);
  };
  let groups = [];
  const open = (members) => members.filter((row) => !decided.has(row));
  const drawGroups = () => {
    byId("groups").replaceChildren(...groups.slice(0, GROUPS).map(({ key, members }) => {
      const rest = open(members);
      const button = (text, extra, act) => el("button", { type: "button", class: extra, text, "aria-label": `${text}: ${key}`, onclick: act, disabled: text !== "Show" && !rest.length ? "" : null });
      const errors = members.filter((row) => row.error).length;
      return el("li", { class: "card" },
        el("div", {}, el("h3", {}, literal(inWords(key))), el("div", { class: "small", text: `${plural(members.length, "name", "names")}, ${number.format(members.length - rest.length)} decided${errors ? `, ${plural(errors, "error", "errors")}` : ""}` })),
        el("div", { class: "sample" }, ...(rest.length ? rest : members).slice(0, SAMPLE).map(pair)),
        el("div", { class: "act" }, button("Accept", "first", () => decide(rest.map((row) => [row, accept(row)]))), button("Leave", "", () => decide(rest.map((row) => [row, LEAVE]))),
          button("Change", "", () => changeGroup(key, rest)), button("Show", "", () => showGroup(key))));
    }));
    byId("more-groups").hidden = groups.length <= GROUPS;
    byId("more-groups").textContent = `and ${number.format(groups.length - GROUPS)} smaller groups; the list below has all names.`;
  };

  /* ---- the list ---- */

  const filters = { search: byId("search"), state: byId("state"), label: byId("label"), reading: byId("reading"), rule: byId("rule") };
  const listed = (select, values) => { for (const [value, n] of [...values].sort((a, b) => b[1] - a[1])) select.append(el("option", { value, text: `${inWords(value)} (${number.format(n)})` })); };
  const tally = (keys) => {
    const counts = new Map();
    for (const row of rows) for (const key of keys(row)) count(counts, key, 1);
    return counts;
  };
  listed(filters.reading, tally(keysBy.reading));
  listed(filters.rule, tally((row) => [...new Set(ruleNames(row))]));
  let only = null, sort = { key: "", down: false }, order = [];
  /* Errors before warnings, guesses before what is sure. */
  const ranked = rows.map((row, at) => at).sort((a, b) => rows[b].error - rows[a].error || rows[b].level - rows[a].level || a - b);
  const sortKeys = { old: (row) => (row.hex === null ? inBytes(row.name) : byteString(bytesOf(row))), new: (row) => inBytes(row.made), dir: (row) => inBytes(row.dir.path) };
  const filter = () => {
    const words = filters.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const [state, level, reading, rule] = ["state", "label", "reading", "rule"].map((key) => filters[key].value);
    order = ranked.filter((at) => {
      const row = rows[at];
      return (only === null || row.dir.path === only) && (!state || kindOf(row) === state) && (!level || label(row) === level) && (!reading || row.reading === reading) &&
        (!rule || ruleNames(row).includes(rule)) && words.every((word) => findable(row).includes(word));
    });
    if (sort.key) {
      const keyed = order.map((at) => [sortKeys[sort.key](rows[at]), at]);
      keyed.sort((a, b) => (sort.down ? compare(b[0], a[0]) : compare(a[0], b[0])) || a[1] - b[1]);
      order = keyed.map(([, at]) => at);
    }
    const filtered = words.length || state || level || reading || rule || only !== null;
    byId("clear").hidden = !filtered;
    byId("shown").textContent = (filtered ? `${number.format(order.length)} of ${plural(rows.length, "name", "names")}` : plural(rows.length, "name", "names")) + (only !== null ? ` in ${only}` : "");
    list.show(order);
  };
  const clear = () => { for (const control of Object.values(filters)) control.value = ""; only = null; };
  const showGroup = (key) => {
    clear();
    const by = byId("by").value;
    if (by === "dir") only = key; else filters[by].value = key;
    filter();
    byId("list").scrollIntoView();
    list.focus();
  };
  const PILLS = ["p-good", "p-plain", "p-warn"];
  const why = (row) => [ruleNames(row).join(", "), row.reading].filter(Boolean).join("; ");
  const WORDS = { accept: "accepted", rename: "changed", leave: "left", undecided: "undecided" };
  const cells = (row) => {
    const kind = kindOf(row), name = nameOf(row);
    const [old, made] = differences(row.name, show(name ?? row.made));
    const button = (text, words, wanted, decision) => el("button", { type: "button", class: "do", tabindex: -1, text, title: words, "aria-label": `${words}: ${row.name}`, "aria-pressed": String(kind === wanted),
      onclick: (event) => { event.preventDefault(); decide([[row, kind === wanted ? undefined : decision]]); } });
    return [
      el("div", { class: "c-old", role: "gridcell", title: row.name }, el("span", { class: `dot d-${kind}`, role: "img", "aria-label": WORDS[kind] }), marked(old)),
      el("div", { class: "c-new", role: "gridcell", title: show(name ?? row.made) }, marked(made, kind === "leave" ? "off" : kind === "rename" ? "own" : "")),
      el("div", { class: "c-why", role: "gridcell", title: why(row) }, el("span", { class: `pill ${PILLS[row.level]}`, text: label(row) }), why(row)),
      el("div", { class: "c-dir", role: "gridcell", title: row.dir.path }, el("bdi", { class: "name", text: row.dir.path })),
      el("div", { class: "c-do", role: "gridcell" }, button("✓", "Accept", "accept", accept(row)), button("–", "Leave", "leave", LEAVE), el("button", { type: "button", class: "do", tabindex: -1, text: "Edit", "aria-label": `Edit: ${row.name}` })),
    ];
  };
  const list = virtualList({
    lines: 5, cells: (at) => cells(rows[at]), empty: rows.length ? "No name matches." : "The plan has no renames.", open: (at) => edit(rows[at]),
    keys: (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const row = rows[list.selected()], key = event.key.toLowerCase();
      if (key === "a") decide([[row, accept(row)]]);
      else if (key === "l") decide([[row, LEAVE]]);
      else if (key === "e") edit(row);
      else return;
      event.preventDefault();
      if (key !== "e") list.move(1);
    } });
  const changed = () => { progress(); drawGroups(); list.redraw(); };

  /* ---- one name ---- */

  const detail = byId("detail");
  const sheet = (...children) => {
    detail.replaceChildren(el("div", { class: "sheet" }, el("button", { type: "button", class: "close", "aria-label": "Close", text: "×", onclick: () => detail.close() }), ...children));
    if (!detail.open) detail.showModal();
    detail.scrollTop = 0;
  };
  const verdict = (node, { faults, doubts }) => node.replaceChildren(...faults.map((text) => el("p", { class: "fault", text })), ...doubts.map((text) => el("p", { class: "doubt", text })),
    ...(faults.length || doubts.length ? [] : [el("p", { class: "fine", text: "Nothing on this page speaks against it; fix apply checks again." })]));
  const edit = (row) => {
    const start = nameOf(row) ?? row.made;
    const [old, made] = differences(row.name, show(start));
    const input = el("input", { type: "text", id: "edited", autocomplete: "off", spellcheck: "false", value: show(start), "aria-describedby": "verdict" });
    const result = el("div", { id: "verdict", role: "status", "aria-live": "polite" });
    const use = el("button", { type: "button", class: "first", text: "Use this name" });
    const choices = [[row.made, row.reading, label(row)], ...row.others.map(([name, reading]) => [name, texts[reading], ""])];
    const radios = choices.map(([name, reading, level]) => {
      const radio = el("input", { type: "radio", name: "choice", onchange: () => { input.value = show(name); judge(); } });
      radio.checked = name === start;
      return [radio, name, el("label", {}, radio, " ", literal(show(name)), el("span", { class: "small", text: [reading, level].filter(Boolean).join(", ") }))];
    });
    const judge = () => {
      const { text, fault } = parse(input.value);
      const found = fault ? { faults: [fault], doubts: [] } : check(row, text);
      use.disabled = found.faults.length > 0;
      for (const [radio, name] of radios) radio.checked = !fault && name === text;
      verdict(result, found);
      return text;
    };
    const done = (decision) => { decide([[row, decision]]); detail.close(); list.move(1); };
    use.addEventListener("click", () => {
      const text = judge();
      if (!use.disabled) done(text === row.made ? accept(row) : text === oldText(row) ? LEAVE : rename(text));
    });
    input.addEventListener("input", judge);
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); use.click(); } });
    const bytes = bytesOf(row);
    sheet(
      el("h2", { class: "pair", id: "detail-title" }, marked(old)), el("p", { class: "pair" }, "→ ", marked(made)),
      el("p", { class: "at" }, el("bdi", { dir: "ltr", text: `in ${row.dir.path}` })),
      el("p", {}, el("span", { class: `pill ${PILLS[row.level]}`, text: label(row) }), ` ${inWords(row.reading)}${row.evidence ? `: ${row.evidence}` : ""}`),
      row.rules.length ? el("ul", { class: "rules" }, ...row.rules.map((rule) => el("li", {}, el("b", { text: run.rules[rule][0] }), ` (${run.rules[rule][2] ? "error" : "warning"}): ${run.rules[rule][1]}`))) : null,
      choices.length > 1 ? el("h3", { text: "What it could be" }) : null, ...(choices.length > 1 ? radios.map(([, , node]) => node) : []),
      el("h3", {}, el("span", { id: "edited-label", text: "New name, with \\u{…} for what is invisible" })), input, result,
      el("div", { class: "act" }, use, el("button", { type: "button", text: "Leave the old name", onclick: () => done(LEAVE) }),
        decided.has(row) ? el("button", { type: "button", text: "Decide later", onclick: () => done(undefined) }) : null),
      el("h3", { text: `Bytes of the old name: ${number.format(bytes.length)}` }), el("p", { class: "hex", text: [...bytes].map(hex2).join(" ") }));
    input.setAttribute("aria-labelledby", "edited-label");
    judge();
    input.focus();
  };

  /* ---- a group gets other names ---- */

  const PREVIEW = 8;
  const changeGroup = (key, members) => {
    const encoding = el("select", { "aria-label": "Encoding" }, el("option", { value: "", text: "Choose an encoding" }), ...run.encodings.map(([name], at) => el("option", { value: String(at), text: name })));
    const replacement = el("input", { type: "text", maxlength: "2", "aria-label": "Replacement for characters that are not allowed", autocomplete: "off" });
    const preview = el("div", { class: "sample" }), result = el("p", { role: "status", "aria-live": "polite" });
    const use = el("button", { type: "button", class: "first", text: "Use these names" });
    const replaced = (text) => {
      const by = replacement.value;
      const bad = (c) => limits.some((limit) => limit.error && refuses(limit, c) || "plain" in limit && limit.error && PLAIN[limit.rule] && PLAIN[limit.rule].test(`a${c}a`));
      return [...text].map((c) => (bad(c) ? by : c)).join("").replace(/^ +| +$|\.+$/g, (ends) => ([...limits].some((limit) => limit.error && objection(limit, ends)) ? by.repeat(ends.length) : ends));
    };
    let pairs = [];
    const judge = () => {
      const read = encoding.value === "" ? oldText : ((decode) => (row) => decode(bytesOf(row)))(reader(run.encodings[Number(encoding.value)]));
      const isChosen = encoding.value !== "" || replacement.value !== "";
      let unread = 0, refused = 0;
      const given = new Set();
      pairs = isChosen ? members.flatMap((row) => {
        const text = typeof read === "function" ? read(row) : null;
        if (text === null) { unread++; return []; }
        const name = replacement.value === "" ? text : replaced(text), at = `${dirs.indexOf(row.dir)}/${keyOf(name)}`;
        if (given.has(at) || check(row, name).faults.length || name === oldText(row)) { refused++; return []; }
        given.add(at);
        return [[row, name === row.made ? accept(row) : rename(name)]];
      }) : [];
      preview.replaceChildren(...pairs.slice(0, PREVIEW).map(([row, { name }]) => {
        const [old, made] = differences(row.name, show(name));
        return el("div", {}, marked(old), " → ", marked(made));
      }));
      result.textContent = isChosen ? [`${plural(pairs.length, "name changes", "names change")}`, unread ? `${number.format(unread)} cannot be read so` : "",
        refused ? `${number.format(refused)} would be refused, taken or the same` : ""].filter(Boolean).join("; ") + (unread + refused ? ": these stay undecided." : ".") : "Choose an encoding, a replacement, or both.";
      use.disabled = !pairs.length;
    };
    encoding.addEventListener("change", judge);
    replacement.addEventListener("input", judge);
    use.addEventListener("click", () => { decide(pairs); detail.close(); });
    sheet(el("h2", { id: "detail-title", text: `Other names for ${plural(members.length, "undecided name", "undecided names")}` }), el("p", { class: "at" }, literal(key)),
      el("h3", { text: "Read the bytes of the old names as" }), encoding,
      el("h3", { text: "Instead of characters that are not allowed" }), replacement,
      el("h3", { text: "What that gives" }), preview, result, el("div", { class: "act" }, use));
    judge();
    encoding.focus();
  };

  /* ---- save and load ---- */

  const fileText = () => {
    const head = { type: "decisions", version: 1, plan_sha256: run.plan.sha256, plan: run.plan.name, saved: `${new Date().toISOString().slice(0, 19)}Z` };
    const lines = [...decided].sort((a, b) => a[0].id - b[0].id).map(([{ id }, { kind, name }]) => (kind === "rename" ? { id, decision: kind, new: name } : { id, decision: kind }));
    return [head, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
  };
  byId("save").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([fileText()], { type: "application/octet-stream" }));
    el("a", { href: address, download: "decisions.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    isSaved = true;
    say("");
  });
  const loadText = (text) => {
    const [head, ...lines] = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    if (!head || head.type !== "decisions" || head.version !== 1) throw new Error("it is not a file of decisions");
    if (head.plan_sha256 !== run.plan.sha256) throw new Error("its decisions are about another plan, or about this plan before it was edited");
    const pairs = lines.map(({ id, decision, new: name }) => {
      const row = byNumber.get(id);
      if (!row) throw new Error(`it has the rename ${id}, which is not on this page`);
      if (decision === "rename" && typeof name !== "string" || !["accept", "leave", "rename"].includes(decision)) throw new Error(`the decision about the rename ${id} is damaged`);
      return [row, decision === "accept" ? accept(row) : decision === "leave" ? LEAVE : rename(name)];
    });
    decide(pairs);
  };
  byId("load").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", async () => {
    const [file] = byId("file").files;
    byId("file").value = "";
    if (!file) return;
    try { loadText(await file.text()); say(""); } catch (error) { say(`${file.name} was not loaded: ${error.message}.`); }
  });
  addEventListener("beforeunload", (event) => { if (!isSaved && decided.size) event.preventDefault(); });

  /* ---- the rest ---- */

  byId("undo").addEventListener("click", undo);
  byId("by").addEventListener("change", () => { groups = groupsNow(); drawGroups(); });
  let typing = 0;
  filters.search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, rows.length > 20000 ? 120 : 0); });
  filters.search.addEventListener("keydown", (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); list.focus(); } });
  for (const key of ["state", "label", "reading", "rule"]) filters[key].addEventListener("change", filter);
  byId("clear").addEventListener("click", () => { clear(); filter(); filters.search.focus(); });
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      sort = sort.key !== key ? { key, down: false } : sort.down ? { key: "", down: false } : { key, down: true };
      for (const other of document.querySelectorAll("[data-sort]")) {
        if (other.dataset.sort === sort.key) other.parentElement.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
        else other.parentElement.removeAttribute("aria-sort");
      }
      filter();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || detail.open || /^(INPUT|SELECT)$/.test(document.activeElement.tagName)) return;
    if (event.key === "/") { event.preventDefault(); filters.search.focus(); }
    else if (event.key.toLowerCase() === "u") { event.preventDefault(); undo(); }
  });
  detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });
  detail.addEventListener("close", list.focus);
  const notes = [];
  if (run.renames > run.rows) notes.push(`The page has the first ${number.format(run.rows)} of ${number.format(run.renames)} renames of the plan; the others stay undecided. To decide about all of them, plan parts of the tree: namegate fix plan DIRECTORY -o review.html for each directory.`);
  const unknown = dirs.filter((dir) => !dir.taken).length;
  if (unknown) notes.push(`The page does not know which names are in use in ${plural(unknown, "directory", "directories")}; fix apply does.`);
  byId("truncated").hidden = !notes.length;
  byId("truncated").textContent = notes.join(" ");
  byId("links").hidden = !run.retargets;
  byId("links").textContent = `${plural(run.retargets, "symbolic link leads", "symbolic links lead")} to such a name: ${run.retargets === 1 ? "its target follows" : "their targets follow"} what you decide.`;
  if (run.skipped.length) {
    byId("skipped").hidden = false;
    byId("skipped").querySelector("ul").append(...run.skipped.map(([path, words]) => el("li", {}, el("bdi", { class: "name", text: path }), `: ${words}`)),
      ...(run.skipped_count > run.skipped.length ? [el("li", { text: `and ${number.format(run.skipped_count - run.skipped.length)} more` })] : []));
  }
  const PRINTED = 2000;
  addEventListener("beforeprint", () => {
    const cell = (text) => el("td", {}, el("bdi", { class: "name", text }));
    byId("printed").replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, ...["Name", "New name", "Decision", "Why", "Directory"].map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...order.slice(0, PRINTED).map((at) => rows[at]).map((row) => el("tr", { class: row.error ? "e" : "w" },
        cell(row.name), cell(show(nameOf(row) ?? row.made)), el("td", { text: WORDS[kindOf(row)] }), el("td", { text: `${label(row)}, ${why(row)}` }), cell(row.dir.path))))),
    order.length > PRINTED ? el("p", { text: `and ${number.format(order.length - PRINTED)} more` }) : "");
  });
  addEventListener("afterprint", () => byId("printed").replaceChildren());
  byId("about").textContent = "Names are shown escaped: \\x for bytes that are not UTF-8, \\u for characters that are invisible or control the display. Nothing leaves this page but the file that you save.";
  groups = groupsNow();
  filter();
  changed();
})();
