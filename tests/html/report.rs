//! The page of `--format html`: hostile names, a hundred thousand findings, keys, both colour schemes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namegate::explain::{Explanation, Role};
use namegate_core::name::display::display;
use namegate_core::policy::rule::Severity;
use namegate_core::policy::{Policy, profile};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::DirectoryPath;
use namegate_scan::report::html::{Html, ReportMetadata};
use namegate_scan::report::{DirectoryFindings, Report, ReportedName, Summary};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::browser::{Browser, axe, strings};

/// Hostile names: markup, script, controls.
const HOSTILE: &[&[u8]] = &[
    b"<script>document.title='owned'<",
    b"<img src=x onerror=document.title='owned'>",
    b"<svg onload=document.title='owned'>",
    b"\"'><b id=owned>",
    b"]<!--<script>?",
    b"&lt;b&gt;?",
    b"\\u003cb id=owned\\u003e",
    b"javascript:document.title='owned'",
    b"=cmd|' -C calc'!A0",
    "gnp.\u{202E}exe".as_bytes(),
    "a\u{2066}b\u{2069}\u{200B}\u{FEFF}c".as_bytes(),
    "line\u{2028}\u{2029}?".as_bytes(),
    b"caf\xE9.txt",
    b"\xC0\xAF\xE0\x80\xAF\xC0\x80",
    b"\xED\xA0\x80\xED\xA1\x8C\xED\xBE\xB4",
    b"\xF4\x90\x80\x80\xF8\x88\x80\x80\x80\xFC\x84\x80\x80\x80\x80\xFE\xFF\x80\x80",
    b"tab\tline\nfeed\x1B[31m\x7F",
    "\u{301}accent \u{2800}\u{E000}\u{FFFD}?".as_bytes(),
    "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F466}?".as_bytes(),
    "שלום.".as_bytes(),
    b"Same",
    b"same",
    b"trailing ",
];

/// Creates a tree of hostile names and its report.
fn hostile_page(dir: &Path) -> PathBuf {
    let tree = dir.join("<b id=owned>");
    fs::create_dir_all(&tree).unwrap();
    for name in HOSTILE {
        File::create(tree.join(OsStr::from_bytes(name))).unwrap();
    }
    let page = dir.join("page.html");
    let status = Command::new(env!("CARGO_BIN_EXE_namegate"))
        .args(["scan", ".", "--target", "windows,macos", "--prefix", "C:\\Data\\", "--profile", "security"])
        .args(["--owners", "--quiet", "--output"])
        .arg(&page)
        .current_dir(dir)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
    page
}

/// Opens the explanation of the finding whose displayed name is `name`.
fn explain(browser: &mut Browser, name: &[u8]) {
    let wanted = serde_json::to_string(&display(name).to_string()).unwrap();
    let click = format!(
        "(() => {{ document.getElementById('detail').close(); const view = document.getElementById('view'); \
         const row = [...document.querySelectorAll('#tall .row')].find(row => \
         row.querySelector('.c-name .name').textContent === {wanted}); row.click(); return true; }})()"
    );
    assert_eq!(browser.value(&click), true);
}

#[test]
fn no_name_is_markup_or_script_and_no_request_leaves_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let page = hostile_page(dir.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page);
    assert_eq!(browser.value("document.title"), "File names: namegate report");
    assert_eq!(
        browser.value("document.querySelectorAll('#owned, img, iframe, object, [onload], [onerror]').length"),
        0
    );
    assert_eq!(browser.value("document.scripts.length"), 3, "two blocks of data and the script of the page");
    // All rows at once, so that none is out of view.
    browser.value("document.getElementById('view').style.height = '4000px'; document.getElementById('view').dispatchEvent(new Event('scroll'))");
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    let shown = browser
        .value("[...document.querySelectorAll('#tall .c-name .name')].map(node => node.textContent).sort()");
    let shown = strings(&shown);
    for name in HOSTILE {
        assert!(shown.contains(&display(name).to_string().as_str()), "{}", display(name));
    }
    for name in HOSTILE {
        explain(&mut browser, name);
    }
    let text = browser.value("document.body.innerText");
    let acts = |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200B}' | '\u{FEFF}' | '\u{2028}' | '\u{1B}');
    assert_eq!(text.as_str().unwrap().chars().find(|&c| acts(c)), None);

    // The page cannot send anything, even if it tried.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(browser.complaints(), [] as [&Value; 0]);
    let address = listener.local_addr().unwrap();
    let tried = browser.value(&format!(
        "fetch('http://{address}/').then(() => 'sent', () => new Promise(done => {{ const image = new Image(); \
         image.onload = () => done('sent'); image.onerror = () => done('refused'); image.src = 'http://{address}/'; }}))"
    ));
    assert_eq!(tried, "refused");
    assert!(listener.accept().is_err(), "somebody connected");
    let injected = browser.value("const s = document.createElement('script'); s.textContent = 'document.title = \"owned\"'; document.head.append(s); document.title");
    assert_eq!(injected, "File names: namegate report", "a script that is not the page's own does not run");
    let others: Vec<&str> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with("file://") && !url.contains("127.0.0.1"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn a_click_explains_each_byte_as_the_program_does() {
    let dir = tempfile::tempdir().unwrap();
    let page = hostile_page(dir.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page);
    browser.value("document.getElementById('view').style.height = '4000px'; document.getElementById('view').dispatchEvent(new Event('scroll'))");
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    for name in HOSTILE {
        explain(&mut browser, name);
        let cells = browser.value(
            "[...document.querySelectorAll('.bytes tbody tr')].map(row => [...row.cells].slice(0, 5).map(cell => cell.textContent).join('|'))",
        );
        let explanation = Explanation::new(name, namegate::explain::DEFAULT_PROFILES);
        let expected: Vec<String> = explanation
            .octets
            .iter()
            .map(|octet| {
                let role = match octet.role {
                    Role::Single => "single".to_owned(),
                    Role::Lead { of } => format!("lead of {of}"),
                    Role::Continuation { index, of } => format!("continuation {index} of {of}"),
                    Role::UnexpectedContinuation => "unexpected continuation".to_owned(),
                    Role::Invalid => "invalid".to_owned(),
                };
                let value = octet.ucs4.as_deref().map_or(String::new(), |ucs4| {
                    match u32::from_str_radix(ucs4, 16).unwrap() {
                        value if value > 0x10_FFFF => ucs4.to_owned(),
                        value => format!("U+{value:04X}"),
                    }
                });
                let joint = if octet.value_bits.is_empty() { "" } else { "·" };
                let bits = format!("{}{joint}{}", octet.marker_bits, octet.value_bits);
                format!("{}|{}|{bits}|{role}|{value}", octet.offset, octet.hex)
            })
            .collect();
        assert_eq!(strings(&cells), expected, "{}", display(name));
        let messages = browser.value("document.querySelector('.bytes').textContent");
        assert!(
            !["null", "undefined", "NaN"].iter().any(|no| messages.as_str().unwrap().contains(no)),
            "{messages}"
        );
        let title = browser.value("document.getElementById('detail-title').textContent");
        assert_eq!(title, display(name).to_string(), "the name is shown as on a terminal");
        let bytes: Vec<String> = name.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(browser.value("document.querySelector('.hex').textContent"), bytes.join(" "));
    }
    assert_eq!(browser.complaints(), [] as [&Value; 0]);
}

#[test]
fn keys_move_through_the_findings_and_colours_follow_the_system_and_the_button() {
    let dir = tempfile::tempdir().unwrap();
    let page = hostile_page(dir.path());
    let Some(mut browser) = Browser::start() else { return };
    let scheme = |browser: &mut Browser, value: &str| {
        let features = serde_json::json!([{ "name": "prefers-color-scheme", "value": value }]);
        browser.call("Emulation.setEmulatedMedia", serde_json::json!({ "features": features }));
        // The page gets the event when it is drawn next.
        browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    };
    scheme(&mut browser, "dark");
    browser.open(&page);
    let dark = "document.documentElement.classList.contains('dark')";
    assert_eq!(browser.value(dark), true);
    assert_eq!(browser.value(&faint_text()), Value::Array(Vec::new()), "in the dark");
    scheme(&mut browser, "light");
    assert_eq!(browser.value(dark), false);
    assert_eq!(browser.value(&faint_text()), Value::Array(Vec::new()), "in the light");
    browser.value("document.getElementById('theme').click()");
    assert_eq!(browser.value(dark), true);

    let all = browser.value("document.getElementById('view').getAttribute('aria-rowcount')");
    browser.press("/");
    assert_eq!(browser.value("document.activeElement.id"), "search");
    browser.type_in("EXE bidi");
    browser.value("new Promise(done => setTimeout(done, 50))");
    assert_eq!(browser.value("document.getElementById('view').getAttribute('aria-rowcount')"), "2");
    browser.press("ArrowDown");
    assert_eq!(browser.value("document.activeElement.id"), "view");
    browser.press("Enter");
    assert_eq!(browser.value("document.getElementById('detail').open"), true);
    assert_eq!(browser.value("document.getElementById('detail-title').textContent"), "gnp.\\u{202E}exe");
    browser.press("Escape");
    assert_eq!(browser.value("document.getElementById('detail').open"), false);
    browser.value("document.getElementById('clear').click()");
    assert_eq!(browser.value("document.getElementById('view').getAttribute('aria-rowcount')"), all);

    let unnamed = "[...document.querySelectorAll('input, select, button, [role=button], dialog, section')].filter(node => \
        !node.textContent.trim() && !node.getAttribute('aria-label') && !node.getAttribute('aria-labelledby')).length";
    assert_eq!(browser.value(unnamed), 0, "everything that can be used has a name");
    assert_eq!(browser.complaints(), [] as [&Value; 0]);
}

/// The printed page, at the width of A4, where the columns of the screen do not fit.
#[test]
fn a_printed_page_has_each_name_with_its_directory_owner_rules_and_suggested_name() {
    let dir = tempfile::tempdir().unwrap();
    let page = hostile_page(dir.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page);
    let all = browser.value("document.getElementById('view').getAttribute('aria-rowcount')");
    let a4 = serde_json::json!({ "width": 720, "height": 1020, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", a4);
    browser.call("Emulation.setEmulatedMedia", serde_json::json!({ "media": "print" }));
    browser.value("dispatchEvent(new Event('beforeprint'))");
    let seen = |what: &str| {
        format!(
            "[...document.querySelectorAll('#printed {what}')].map(cell => cell.getClientRects().length && \
             cell.offsetWidth > 40 ? cell.textContent : 'NOT SEEN')"
        )
    };
    let headings = browser.value(&seen("th"));
    assert_eq!(strings(&headings), ["Name", "Directory", "Owner", "Rules", "Suggested name"]);
    let cells = browser.value(&seen("tbody td"));
    let cells = strings(&cells);
    let rows: Vec<&[&str]> = cells.chunks(5).collect();
    assert_eq!((rows.len() + 1).to_string(), all);
    let row = |name: &[u8]| *rows.iter().find(|row| row[0] == display(name).to_string()).unwrap();
    let owner = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    assert_eq!(
        row(b"trailing "),
        ["trailing\\u{20}", "./<b id=owned>", &owner, "trailing-space", "trailing"]
    );
    let hidden = browser.value("document.getElementById('table').getClientRects().length");
    assert_eq!(hidden, 0, "the list that scrolls is for screens");
}

#[test]
fn the_head_says_what_was_scanned_where_when_and_by_which_program() {
    let dir = tempfile::tempdir().unwrap();
    let page = hostile_page(dir.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page);
    let facts = browser.value(
        "[...document.querySelectorAll('#facts > div')].map(fact => [...fact.children].map(part => part.textContent).join('|'))",
    );
    let facts = strings(&facts);
    let fact = |key: &str| {
        facts
            .iter()
            .find_map(|fact| fact.strip_prefix(key)?.strip_prefix('|'))
            .unwrap_or_else(|| panic!("{facts:?}"))
    };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(fact("Scanned"), fs::canonicalize(dir.path()).unwrap().to_str().unwrap());
    assert_eq!(fact("Host"), host.trim_end());
    assert_eq!(fact("Path on the target"), "C:\\Data");
    assert_eq!(fact("Checked against"), "security, windows, macos");
    assert!(fact("Tool").starts_with(concat!("namegate ", env!("CARGO_PKG_VERSION"))), "{facts:?}");
    let date = fact("Date").strip_suffix(" UTC").unwrap();
    let age: i64 = seconds_since(date);
    assert!((0..600).contains(&age), "{date}: {age} seconds ago");
}

/// Seconds since this minute in UTC began.
fn seconds_since(minute: &str) -> i64 {
    let then: jiff::Timestamp = format!("{}:00Z", minute.replace(' ', "T")).parse().unwrap();
    jiff::Timestamp::now().as_second() - then.as_second()
}

#[test]
fn axe_finds_nothing_critical_or_serious() {
    let dir = tempfile::tempdir().unwrap();
    let page = hostile_page(dir.path());
    let (Some(mut browser), Some(axe)) = (Browser::start(), axe()) else { return };
    browser.open(&page);
    browser.value(&format!("{axe}; true"));
    for colours in ["light", "dark"] {
        browser.value(&format!("document.documentElement.classList.toggle('dark', {})", colours == "dark"));
        assert_eq!(browser.serious_violations(), [] as [String; 0], "{colours}");
        explain(&mut browser, b"caf\xE9.txt");
        assert_eq!(browser.serious_violations(), [] as [String; 0], "an explanation, {colours}");
        browser.value("document.getElementById('detail').close()");
    }
    browser.resize(400, 800);
    assert_eq!(browser.serious_violations(), [] as [String; 0], "on a narrow screen");
}

/// Text with a contrast ratio below 4.5 (WCAG 2.2, 1.4.3).
fn faint_text() -> String {
    "(() => {
        const channels = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
        const light = ([r, g, b]) => { const f = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
        const ground = (node) => { for (let at = node; at; at = at.parentElement) { const c = channels(getComputedStyle(at).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
        const faint = [];
        for (const node of document.querySelectorAll('body *')) {
            if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()) || !node.getClientRects().length) continue;
            const style = getComputedStyle(node);
            const ink = light(channels(node instanceof SVGElement ? style.fill : style.color)), paper = light(ground(node));
            const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
            if (ratio < 4.5) faint.push(`${node.tagName} ${node.className.baseVal ?? node.className} ${node.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
        }
        return [...new Set(faint)];
    })()"
    .to_owned()
}

#[test]
fn a_hundred_thousand_findings_are_searched_and_sorted_without_delay() {
    const FINDINGS: usize = 100_000;
    /// Maximum time that a person perceives as immediate, with a margin for slow machines.
    const AT_ONCE: Duration = Duration::from_secs(2);
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
    let mut out = BufWriter::new(File::create(&page).unwrap());
    let mut summary = Summary::of(&policy);
    let mut report = Html::new(&mut out, ReportMetadata::default(), |_| None);
    let render = report.renderer();
    for number in 0..FINDINGS {
        let name = format!("report {}?.txt", number * 7919 % FINDINGS);
        let mut record = ReportedName::of(&policy, &policy.check(name.as_bytes()));
        let dir = format!("share/{:03}", number / 500).into_bytes();
        record.place = Some(Arc::new(DirectoryPath { container: None, dir, inode: None }));
        summary.count(&record);
        let findings = DirectoryFindings { records: vec![record], ..DirectoryFindings::default() };
        report.write(&findings, &render(&findings)).unwrap();
    }
    report.finish(&CheckBasis::new(&policy, b"", None, Severity::Warn), &summary).unwrap();
    drop(report);
    out.flush().unwrap();
    let begun = Instant::now();
    browser.open(&page);
    let opened = begun.elapsed();
    assert_eq!(
        browser.value("document.getElementById('view').getAttribute('aria-rowcount')"),
        (FINDINGS + 1).to_string()
    );
    let nodes = "document.getElementsByTagName('*').length";
    assert!(browser.value(nodes).as_u64().unwrap() < 2000, "rows out of sight are not on the page");

    let timed = |browser: &mut Browser, doing: &str| {
        let script = format!(
            "(() => {{ const begun = performance.now(); {doing}; document.body.offsetHeight; return performance.now() - begun; }})()"
        );
        Duration::from_secs_f64(browser.value(&script).as_f64().unwrap() / 1000.0)
    };
    // On a busy machine one attempt may be slow; the second attempt must not be.
    let timed = |browser: &mut Browser, doing: &str| {
        let mut took = timed(browser, doing);
        for _ in 0..3 {
            if took >= AT_ONCE {
                timed(browser, doing);
                took = timed(browser, doing);
            }
        }
        took
    };
    let search = "const box = document.getElementById('search'); box.value = 'REPORT 4711?'; document.getElementById('rule').dispatchEvent(new Event('change'))";
    let searched = timed(&mut browser, search);
    let matching = (0..FINDINGS).filter(|number| format!("{number}?").contains("4711?")).count();
    let counted = browser.value("document.getElementById('view').getAttribute('aria-rowcount')");
    assert_eq!(counted, (matching + 1).to_string());
    browser.value("document.getElementById('clear').click()");
    let sorted = timed(&mut browser, "document.querySelector('[data-sort=name]').click()");
    assert_eq!(browser.value("document.querySelector('#tall .c-name .name').textContent"), "report 0?.txt");
    browser.value("document.getElementById('view').focus()");
    browser.press("End");
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    let last = "document.querySelector('#tall .row[aria-selected=true] .name').textContent";
    let greatest = (0..FINDINGS).map(|number| format!("report {number}?.txt")).max();
    assert_eq!(browser.value(last), greatest.unwrap());
    println!("opened in {opened:?}, searched in {searched:?}, sorted in {sorted:?}");
    assert!(searched < AT_ONCE && sorted < AT_ONCE, "searched in {searched:?}, sorted in {sorted:?}");
    assert!(opened < Duration::from_secs(60), "opened in {opened:?}");
    assert_eq!(browser.complaints(), [] as [&Value; 0]);
}

/// Scans the directory with this target, and returns the page and the summary of the same run in JSON.
fn scanned_page(dir: &Path, args: &[&str]) -> (PathBuf, Value) {
    let (page, lines) = (dir.join("page.html"), dir.join("lines.jsonl"));
    let mut scan = Command::new(env!("CARGO_BIN_EXE_namegate"));
    scan.args(["scan", "tree", "--quiet", "--target", "windows", "-o"]).arg(&page).arg("-o").arg(&lines);
    assert!(scan.args(args).current_dir(dir).status().unwrap().code().is_some());
    let lines = fs::read_to_string(lines).unwrap();
    (page, serde_json::from_str(lines.lines().last().unwrap()).unwrap())
}

#[test]
fn names_are_sorted_by_their_bytes_guesses_are_marked_and_numbers_are_those_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    // In the order of their bytes. In UTF-16 the second to last comes before the one above it.
    let names: [&[u8]; 7] = [
        b"a?b?c?",
        b"caf\xC3\xA9?",
        b"caf\xE9.txt",
        b"z?",
        "\u{E9}?".as_bytes(),
        "\u{FF21}?".as_bytes(),
        "\u{1F600}?".as_bytes(),
    ];
    for name in names.iter().copied().chain((0..200).map(|n| n.to_string().leak().as_bytes())) {
        File::create(tree.join(OsStr::from_bytes(name))).unwrap();
    }
    let (page, summary) = scanned_page(dir.path(), &[]);
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page);
    browser.value("document.querySelector('[data-sort=name]').click()");
    let rows = browser.value("[...document.querySelectorAll('#tall .row')].map(row => [row.querySelector('.c-name .name'), row.querySelector('.c-rules'), row.querySelector('.c-fix')].map(cell => cell.textContent).join('|'))");
    let rows = strings(&rows);
    let shown: Vec<&str> = rows.iter().map(|row| row.split('|').next().unwrap()).collect();
    assert_eq!(shown, names.map(|name| display(name).to_string()));
    assert_eq!(rows[2], "caf\\xE9.txt|not UTF-8, perhaps windows-1252truncated|guesscaf\u{e9}.txt");
    assert!(!rows[0].contains("guess"), "{}", rows[0]);
    explain(&mut browser, names[2]);
    let parts = browser.value("[...document.querySelectorAll('.sheet > *')].map(part => part.className)");
    let parts = strings(&parts);
    assert!(
        parts.iter().position(|&part| part == "encoding") < parts.iter().position(|&part| part == "reason")
    );
    assert_eq!(
        browser.value("document.querySelector('.encoding').textContent"),
        "not UTF-8, perhaps windows-1252"
    );

    let figures = browser.value("[...document.querySelectorAll('#verdict .n')].map(n => n.textContent + ' ' + n.nextSibling.textContent)");
    let count = |key: &str| summary[key].to_string();
    let expected = [
        count("rejected") + " names rejected",
        count("warned") + " names with warnings only",
        count("insecure") + " names with security violations",
        count("violation_count") + " violations",
        count("collisions") + " groups of colliding names",
        count("names") + " names checked",
    ];
    assert_eq!(strings(&figures), expected);
    assert_eq!(browser.value("document.getElementById('shown').textContent"), count("findings") + " names");
    let options = browser
        .value("[...document.querySelectorAll('#rule option')].slice(1).map(option => option.textContent)");
    for option in strings(&options) {
        let rule = option.split(' ').next().unwrap();
        let names = summary["names_by_rule"][rule].as_u64().unwrap();
        assert_eq!(option, format!("{rule} ({names} name{})", if names == 1 { "" } else { "s" }));
    }
    // Most names are ready, and so is most of the bar.
    let bar = browser.value("[...document.querySelectorAll('.bar rect')].map(part => part.getAttribute('class') + ' ' + Math.round(part.getAttribute('width')))");
    let (refused, all) =
        (summary["targets"][0]["refused"].as_f64().unwrap(), summary["names"].as_f64().unwrap());
    let refused = (refused / all * 1000.0).round();
    assert_eq!(strings(&bar), [format!("s0 {}", 1000.0 - refused), format!("s1 {refused}")]);
    assert_eq!(browser.value("document.getElementById('incomplete').hidden"), true);
    assert_eq!(browser.complaints(), [] as [&Value; 0]);

    let (page, _) = scanned_page(dir.path(), &["missing"]);
    browser.open(&page);
    let banner = browser.value("(() => { const banner = document.getElementById('incomplete'); return banner.getClientRects().length ? banner.textContent : ''; })()");
    assert_eq!(banner, "This report is incomplete: not all names were checked: 1 entry could not be read.");
}

#[test]
fn a_page_allows_only_its_own_style_and_script() {
    let dir = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(hostile_page(dir.path())).unwrap();
    for tag in ["style", "script"] {
        let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
        let text = page.split_once(&begin).unwrap().1.split_once(&end).unwrap().0;
        let hash = data_encoding::BASE64.encode(&Sha256::digest(text));
        let allowed = format!("{tag}-src 'sha256-{hash}';");
        assert!(page.contains(&allowed), "{allowed}");
    }
    let script = page.split_once("<script>").unwrap().1;
    for way in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "http:"]
    {
        assert!(!script.contains(way) || way == "http:" && script.matches(way).count() == 1, "{way}");
    }
}
