//! The page of `fix plan -o review.html`: what a person decides by keys and mouse is saved, applied, and on the disk.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::{Browser, axe, strings};

/// Names that need others, hostile ones among them.
const NAMES: &[&[u8]] = &[
    b"<script>document.title='owned'<",
    b"</script><b id=owned>?".split_at(2).1,
    b"<img src=x onerror=document.title='owned'>",
    b"&lt;b&gt;?",
    "gnp.\u{202E}exe?".as_bytes(),
    "line\u{2028}\u{2029}\u{200B}?".as_bytes(),
    b"Gr\xF6\xDFe.txt",
    b"\xDCbersicht.txt",
    b"Stra\xDFe.txt",
    b"Ger\xE4te und \xD6le.txt",
    b"cut \xE5\x85.txt",
    b"tab\t?",
    b"what?",
    b"how:long",
    b"trailing ",
];

struct Review {
    dir: tempfile::TempDir,
}

impl Review {
    /// Creates a tree with the names, and the page about its plan.
    fn new(names: &[&[u8]]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        fs::create_dir(dir.path().join("saved")).unwrap();
        let review = Self { dir };
        for name in names {
            File::create(review.path("tree").join(OsStr::from_bytes(name))).unwrap();
        }
        // 255 bytes are allowed here, and one more character would be too many.
        File::create(review.path("tree").join(format!("{}?", "\u{E9}".repeat(127)))).unwrap();
        let plan = review.fix(&["plan", "tree", "--profile", "windows,security", "-o", "review.html"]);
        assert_eq!(plan.status.code(), Some(0), "{plan:?}");
        review
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn fix(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("fix").args(args).current_dir(self.dir.path());
        command.env("XDG_STATE_HOME", self.path("state")).output().unwrap()
    }

    fn open(&self) -> Option<Browser> {
        let mut browser = Browser::start()?;
        browser.open(&self.path("review.html"));
        Some(browser)
    }

    /// Saves the decisions as a person does, and returns the file.
    fn save(&self, browser: &mut Browser) -> PathBuf {
        let saved = self.path("saved");
        let to = json!({ "behavior": "allow", "downloadPath": saved });
        browser.call("Page.setDownloadBehavior", to);
        click(browser, "#save");
        let begin = Instant::now();
        loop {
            let mut files = fs::read_dir(&saved).unwrap().map(|entry| entry.unwrap().path());
            if let Some(file) = files.find(|path| path.extension().is_some_and(|end| end == "jsonl")) {
                let to = self.path("decisions.jsonl");
                fs::rename(file, &to).unwrap();
                return to;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "nothing was saved");
            browser.value("new Promise(done => setTimeout(done, 20))");
        }
    }

    fn names(&self) -> BTreeSet<Vec<u8>> {
        let entries = fs::read_dir(self.path("tree")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_vec()).collect()
    }

    fn decisions(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("decisions.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn click(browser: &mut Browser, selector: &str) {
    let selector = serde_json::to_string(selector).unwrap();
    browser.value(&format!("document.querySelector({selector}).click()"));
}

/// Selects the row of a shown name by keys, and leaves the list focused.
fn select(browser: &mut Browser, name: &str) {
    browser.value("document.getElementById('view').focus()");
    browser.press("Home");
    for _ in 0..40 {
        let selected =
            browser.value("document.querySelector('#tall [aria-selected=true] .c-old .name').textContent");
        if selected == name {
            return;
        }
        browser.press("ArrowDown");
    }
    panic!("no row {name}");
}

fn text(browser: &mut Browser, selector: &str) -> String {
    let selector = serde_json::to_string(selector).unwrap();
    let text = browser.value(&format!("document.querySelector({selector}).textContent"));
    text.as_str().unwrap().to_owned()
}

/// Puts a text into the box for a name, as typing does.
fn edit(browser: &mut Browser, name: &str) {
    browser.value("document.getElementById('edited').select()");
    browser.type_in(name);
}

#[test]
fn what_a_person_decides_by_keys_and_mouse_is_renamed_and_nothing_else() {
    let review = Review::new(NAMES);
    let Some(mut browser) = review.open() else { return };
    assert_eq!(text(&mut browser, "#decided"), format!("0 of {} decided", NAMES.len() + 1));
    // By keys: accept, leave, and another name.
    select(&mut browser, "what?");
    browser.press("a");
    select(&mut browser, "how:long");
    browser.press("l");
    select(&mut browser, "tab\\t?");
    browser.press("e");
    edit(&mut browser, "tab and more");
    browser.press("Enter");
    // With the mouse: a whole group, and one of it back.
    browser.value("[...document.querySelectorAll('#groups li')].find(li => li.querySelector('h3').textContent === 'windows-1252').querySelector('button').click()");
    let decided = text(&mut browser, "#decided");
    click(&mut browser, "#undo");
    assert_eq!(text(&mut browser, "#decided"), format!("3 of {} decided", NAMES.len() + 1), "{decided}");
    browser.value("[...document.querySelectorAll('#groups li')].find(li => li.querySelector('h3').textContent === 'windows-1252').querySelector('button').click()");
    assert_eq!(text(&mut browser, "#decided"), decided);
    select(&mut browser, "\\xDCbersicht.txt");
    browser.value("[...document.querySelectorAll('#tall .row[aria-selected=true] button')][1].click()");
    assert_eq!(browser.complaints(), [] as [&Value; 0]);

    let before = review.names();
    review.save(&mut browser);
    let lines = review.decisions();
    assert!(lines.len() >= 7, "{lines:?}");
    let plan_sha256 = {
        use sha2::{Digest, Sha256};
        let hash = Sha256::digest(fs::read(review.path("review.jsonl")).unwrap());
        data_encoding::HEXLOWER.encode(&hash)
    };
    assert_eq!(lines[0]["plan_sha256"], plan_sha256);
    let shown = review.fix(&["show", "review.jsonl", "--decisions", "decisions.jsonl"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("Decided by decisions.jsonl, saved 20"), "{shown}");
    assert!(shown.contains("tab and more") && shown.contains("1 with another name, 2 left"), "{shown}");

    let rehearsed = review.fix(&["apply", "review.jsonl", "--decisions", "decisions.jsonl"]);
    assert_eq!(rehearsed.status.code(), Some(0), "{rehearsed:?}");
    assert_eq!(review.names(), before, "without --yes nothing changes");
    let applied = review.fix(&["apply", "review.jsonl", "--decisions", "decisions.jsonl", "--yes"]);
    assert_eq!(applied.status.code(), Some(0), "{applied:?}");
    let plan = fs::read_to_string(review.path("review.jsonl")).unwrap();
    let plan: Vec<Value> = plan.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut expected = before.clone();
    for decision in lines.iter().skip(1).filter(|line| line["decision"] != "leave") {
        let planned = plan.iter().find(|line| line["id"] == decision["id"]).unwrap();
        let old = data_encoding::HEXLOWER.decode(planned["old_hex"].as_str().unwrap().as_bytes()).unwrap();
        let new = decision["new"].as_str().or(planned["new"].as_str()).unwrap();
        assert!(expected.remove(&old));
        expected.insert(new.as_bytes().to_vec());
    }
    assert_eq!(review.names(), expected);
    for name in ["tab and more", "Größe.txt", "Straße.txt", "Geräte und Öle.txt", "how:long"] {
        assert!(expected.contains(name.as_bytes()), "{name}");
    }

    let status = String::from_utf8(review.fix(&["status"]).stdout).unwrap();
    assert!(status.contains("decisions.jsonl"), "{status}");
    let undone = review.fix(&["undo", "--last", "--yes"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(review.names(), before);
}

#[test]
fn hostile_names_are_text_and_nothing_in_them_acts() {
    let review = Review::new(NAMES);
    let Some(mut browser) = review.open() else { return };
    assert_eq!(browser.value("document.title"), "Review of new names: namegate");
    let foreign = "document.querySelectorAll('#owned, img, iframe, object, [onload], [onerror]').length";
    assert_eq!(browser.value(foreign), 0);
    browser.resize(1280, 3000);
    let rows = browser.value("document.querySelectorAll('#tall .row').length").as_u64().unwrap();
    for row in 0..rows {
        browser.value(&format!("document.querySelectorAll('#tall .row')[{row}].click()"));
        assert_eq!(browser.value(foreign), 0);
        let acts = browser.value(
            "[document.body.innerText, ...[...document.querySelectorAll('input')].map(input => input.value)].join('').match(/[\\u202A-\\u202E\\u2066-\\u2069\\u200B\\uFEFF\\u2028\\u2029\\u0000-\\u0008]/)",
        );
        assert!(acts.is_null(), "{acts}");
        browser.value("document.getElementById('detail').close()");
    }
    assert_eq!(browser.value("document.title"), "Review of new names: namegate");
    assert_eq!(browser.complaints(), [] as [&Value; 0]);
    assert_eq!(browser.requests().len(), 1, "the page and nothing else");
}

#[test]
fn a_name_is_checked_while_it_is_typed() {
    let review = Review::new(&[b"what?", b"other?", b"taken", b"bad\xE9 name here.txt"]);
    let Some(mut browser) = review.open() else { return };
    select(&mut browser, "what?");
    browser.press("Enter");
    for (typed, said) in [
        ("a:b", "reserved-character: :"),
        ("con.txt", "reserved-name: con.txt"),
        ("", "a name cannot be empty"),
        ("..", ".. is a directory itself"),
        ("a/b", "a name contains no / and no NUL"),
        ("end.", "trailing-dot"),
        ("TAKEN", "taken is in this directory"),
        ("\\u{202E}x", "bidi-control"),
        ("a\\qb", "\\q is no escape; a backslash is \\\\"),
        (&"\u{1F600}".repeat(128), "256 UTF-16 units, at most 255"),
    ] {
        edit(&mut browser, typed);
        if typed.is_empty() {
            browser.value("(() => { const box = document.getElementById('edited'); box.value = ''; box.dispatchEvent(new Event('input')); })()");
        }
        let verdict = text(&mut browser, "#verdict");
        assert!(verdict.contains(said), "{typed}: {verdict}");
        let disabled = browser.value("document.querySelector('#detail .first').disabled");
        assert_eq!(disabled, !said.starts_with("bidi"), "{typed}: a warning is no error: {verdict}");
    }
    edit(&mut browser, "fine");
    assert!(text(&mut browser, "#verdict").starts_with("Nothing on this page speaks against it"));
    browser.press("Enter");
    // What one entry gets is not free for another.
    select(&mut browser, "other?");
    browser.press("Enter");
    edit(&mut browser, "FINE");
    assert!(text(&mut browser, "#verdict").contains("another entry here gets this name"));
}

#[test]
fn a_group_gets_names_by_another_encoding_or_replacement() {
    let review = Review::new(&[b"\x8Etat.txt", b"\x8Ete.txt", b"a?b", b"c?d", b"a-b"]);
    let Some(mut browser) = review.open() else { return };
    browser.value("(() => { const by = document.getElementById('by'); by.value = 'rule'; by.dispatchEvent(new Event('change')); })()");
    let change = |rule: &str| {
        format!(
            "[...document.querySelectorAll('#groups li')].find(li => li.querySelector('h3').textContent === '{rule}').querySelectorAll('button')[2].click()"
        )
    };
    browser.value(&change("reserved-character"));
    browser.value("document.querySelector('#detail input[type=text]').focus()");
    browser.type_in("-");
    let said = text(&mut browser, "#detail [role=status]");
    assert!(
        said.contains("1 would be refused, taken or the same: these stay undecided"),
        "a-b exists: {said}"
    );
    click(&mut browser, "#detail .first");
    let rules = browser.value("[...document.querySelectorAll('#groups h3')].map(node => node.textContent)");
    let damaged = strings(&rules).into_iter().find(|rule| *rule != "reserved-character").unwrap().to_owned();
    browser.value(&change(&damaged));
    browser.value("(() => { const box = document.querySelector('#detail select'); box.value = [...box.options].find(option => option.text === 'macintosh').value; box.dispatchEvent(new Event('change')); })()");
    assert!(text(&mut browser, "#detail .sample").contains("état.txt"));
    click(&mut browser, "#detail .first");
    review.save(&mut browser);
    let applied = review.fix(&["apply", "review.jsonl", "--decisions", "decisions.jsonl", "--yes"]);
    assert_eq!(applied.status.code(), Some(0), "{applied:?}");
    let names = review.names();
    for name in ["état.txt", "éte.txt", "c-d", "a-b"] {
        assert!(names.contains(name.as_bytes()), "{name}: {names:?}");
    }
    assert!(names.contains(&b"a?b"[..]), "it is undecided");
}

#[test]
fn a_page_goes_on_with_saved_decisions_and_refuses_those_of_another_plan() {
    let review = Review::new(NAMES);
    let Some(mut browser) = review.open() else { return };
    select(&mut browser, "what?");
    browser.press("a");
    select(&mut browser, "how:long");
    browser.press("l");
    let saved = review.save(&mut browser);
    let other = Review::new(&[b"else?"]);
    let load = |browser: &mut Browser, file: &Path| {
        let text = fs::read_to_string(file).unwrap();
        browser.value(&format!(
            "(() => {{ const box = document.getElementById('file'), data = new DataTransfer(); data.items.add(new File([{}], 'decisions.jsonl')); box.files = data.files; box.dispatchEvent(new Event('change')); }})()",
            serde_json::to_string(&text).unwrap()
        ));
        browser.value("new Promise(done => setTimeout(done, 200))");
    };
    let Some(mut again) = review.open() else { return };
    load(&mut again, &saved);
    assert_eq!(text(&mut again, "#decided"), format!("2 of {} decided", NAMES.len() + 1));
    let Some(mut foreign) = other.open() else { return };
    load(&mut foreign, &saved);
    assert!(text(&mut foreign, "#message").contains("about another plan"));
    assert!(text(&mut foreign, "#decided").starts_with("0 of"));

    let refused = other.fix(&["apply", "review.jsonl", "--decisions", saved.to_str().unwrap(), "--yes"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("about another plan"), "{refused:?}");
}

#[test]
fn a_hundred_thousand_renames_are_seen_soon_scrolled_without_gaps_and_decided_at_once() {
    const COUNT: usize = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let mut plan = String::from(
        r#"{"type":"plan","version":1,"namegate":"1.0.0","created":"2026-01-01T00:00:00Z","roots":[{"path":"/nowhere","path_base64":"L25vd2hlcmU=","inode":1}],"profiles":["windows"],"policy":"profiles = [\"windows\"]\n","encoding":"auto"}"#,
    );
    for id in 1..=COUNT {
        let (dir, old, new) =
            (format!("/nowhere/{}", id / 500), format!("name {id}?"), format!("name {id}_"));
        let (hex, dir64) =
            (data_encoding::HEXLOWER.encode(old.as_bytes()), data_encoding::BASE64.encode(dir.as_bytes()));
        plan += &format!(
            "\n{{\"type\":\"rename\",\"id\":{id},\"old\":\"{old}\",\"new\":\"{new}\",\"directory\":\"{dir}\",\"confidence\":\"likely\",\"reading\":\"repair\",\"reasons\":[\"reserved-character\"],\"kind\":\"file\",\"old_hex\":\"{hex}\",\"inode\":{id},\"ctime\":\"1.000000000\",\"directory_base64\":\"{dir64}\",\"directory_inode\":{}}}",
            id / 500 + 1
        );
    }
    let (file, page) = (dir.path().join("plan.jsonl"), dir.path().join("review.html"));
    fs::write(&file, plan + "\n").unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_namegate"))
        .args(["fix", "show"])
        .arg(&file)
        .arg("-o")
        .arg(&page)
        .output()
        .unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page);
    let shown = browser.value("performance.getEntriesByType('navigation')[0].domComplete").as_f64().unwrap();
    // On an idle machine a fifth of the two seconds that a person would wait.
    assert!(shown < 10_000.0, "{shown} ms");
    let heap = browser.value("performance.memory.usedJSHeapSize").as_f64().unwrap() / 1e6;
    println!("first picture after {shown} ms, {heap} MB of JavaScript");
    assert!(heap < 400.0, "{heap} MB");
    for at in 0..20 {
        browser.value(&format!("(() => {{ const view = document.getElementById('view'); view.scrollTop = view.scrollHeight * {at} / 20; }})()"));
        browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))");
        let gap = browser.value(
            "(() => { const view = document.getElementById('view').getBoundingClientRect(), head = document.getElementById('head').offsetHeight; \
             const rows = [...document.querySelectorAll('#tall .row')].map(row => row.getBoundingClientRect()); \
             for (let y = view.top + head + 2; y < view.bottom - 2; y += 20) if (!rows.some(row => row.top <= y && y < row.bottom)) return y; return null; })()",
        );
        assert!(gap.is_null(), "at {at}/20: {gap}");
    }
    let took = browser.value("(() => { const begin = performance.now(); document.querySelector('#groups button').click(); return performance.now() - begin; })()");
    assert_eq!(text(&mut browser, "#decided"), "100,000 of 100,000 decided");
    println!("all decided in {took} ms");
}

#[test]
fn axe_finds_nothing_critical_or_serious_in_a_review() {
    let review = Review::new(NAMES);
    let (Some(mut browser), Some(axe)) = (review.open(), axe()) else { return };
    browser.value(&format!("{axe}; true"));
    for colours in ["light", "dark"] {
        browser.value(&format!("document.documentElement.classList.toggle('dark', {})", colours == "dark"));
        assert_eq!(browser.serious_violations(), [] as [String; 0], "{colours}");
        for open in [
            "document.querySelector('#tall .row').click()",
            "document.querySelectorAll('#groups button')[2].click()",
        ] {
            browser.value(open);
            assert_eq!(browser.serious_violations(), [] as [String; 0], "{open}, {colours}");
            browser.value("document.getElementById('detail').close()");
        }
        select(&mut browser, "what?");
        browser.press("a");
        assert_eq!(browser.serious_violations(), [] as [String; 0], "decided, {colours}");
    }
    browser.resize(390, 800);
    assert_eq!(browser.serious_violations(), [] as [String; 0], "on a phone");
}
