//! Scans and plans decode names with the same evidence: on generated shares with all kinds of damage they suggest the same names with the
//! same labels.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use encoding_rs::{Encoding, GBK, IBM866, SHIFT_JIS, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252};
use serde_json::Value;

use namegate_testkit::program::{run, stderr, stdout};
use namegate_testkit::random::Random;

const LOCALES: [(&Encoding, &[&str]); 7] = [
    (
        WINDOWS_1252,
        &["Übersicht", "Größe", "Straße", "Müller", "für Ärzte", "Gehälter 5 €", "§ 12", "Stück à 5", "½"],
    ),
    (WINDOWS_1252, &["café", "élèves", "reçu", "naïve", "forêt", "où", "ça va", "été"]),
    (WINDOWS_1250, &["žluťoučký", "kůň", "příloha", "účet", "město", "řeka", "súbor"]),
    (WINDOWS_1251, &["Привет", "договор", "счёт", "отчёт за год", "смета", "Москва", "я"]),
    (IBM866, &["Привет", "договор", "счёт", "письмо", "архив", "план"]),
    (SHIFT_JIS, &["日本語", "写真", "会議", "資料", "東京", "テスト"]),
    (GBK, &["中文", "报告", "照片", "文件", "合同", "北京"]),
];

/// A name with some damage, or without.
fn name(random: &mut Random, encoding: &'static Encoding, words: &[&str]) -> Vec<u8> {
    let word = random.of(words);
    let number = random.below(30);
    let text = format!("{word} {number}");
    let legacy = || encoding.encode(&text).0.into_owned();
    let utf8 = text.as_bytes();
    let mut name = match random.below(12) {
        0..=4 => legacy(),
        5 => match word.char_indices().last() {
            // Cut in the middle of a character.
            Some((at, c)) if c.len_utf8() > 1 => word.as_bytes()[..=at].to_vec(),
            _ => utf8.to_vec(),
        },
        6 => utf8.iter().fold(Vec::new(), |mut name, &byte| {
            match byte {
                0x80..=0x9F => name.extend(format!("%{byte:02X}").bytes()),
                _ => name.push(byte),
            }
            name
        }),
        7 => [utf8, b" ", &legacy()].concat(),
        8 => legacy().into_iter().fold(Vec::new(), |mut name, byte| {
            match byte {
                0x80.. => name.extend([0xED, 0xB0 | byte >> 6, 0x80 | byte & 0x3F]),
                _ => name.push(byte),
            }
            name
        }),
        9 => WINDOWS_1252.decode_without_bom_handling(utf8).0.into_owned().into_bytes(),
        10 => [b"five\xF8\x88\x80\x80\x80".as_slice(), number.to_string().as_bytes()].concat(),
        _ => format!("{number} plain").into_bytes(),
    };
    name.retain(|&byte| byte != b'/' && byte != 0);
    name.extend_from_slice(random.of(&[&b""[..], b".txt", b".pdf"]));
    name
}

fn make_share(root: &Path, random: &mut Random) {
    let mut dirs = vec![root.to_path_buf()];
    for number in 0..50 {
        let above = random.below(dirs.len());
        let dir = dirs[above].join(format!("d{number}"));
        fs::create_dir(&dir).unwrap();
        dirs.push(dir);
    }
    let house = random.below(LOCALES.len());
    for dir in &dirs {
        let locale = if random.below(4) > 0 { house } else { random.below(LOCALES.len()) };
        let (encoding, words) = LOCALES[locale];
        for _ in 0..random.of(&[0, 1, 1, 2, 3, 8]) {
            fs::write(dir.join(OsStr::from_bytes(&name(random, encoding, words))), "").unwrap();
        }
    }
    // A directory that is read in parts.
    if random.below(4) == 0 {
        for number in 0..3000 {
            fs::write(root.join(format!("{} {number}", "n".repeat(60))), "").unwrap();
        }
    }
}

/// New names with their labels, by the inode of the directory and the name in hexadecimal.
fn suggested(args: &[&str], root: &Path, keys: [&str; 4]) -> BTreeMap<(u64, String), (String, String)> {
    let output = run(args.iter().map(OsStr::new).chain([root.as_os_str()]));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    let values = stdout(&output);
    let values = values.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let [dir, old, new, label] = keys;
    let line = |value: Value| {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Some(((value[dir].as_u64()?, text(old)?), (text(new)?, text(label)?)))
    };
    values.filter_map(line).collect()
}

#[test]
fn scans_and_plans_suggest_the_same_names_on_generated_shares() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let (mut all, mut likely) = (0, 0);
    for seed in [31, 32, 33, now] {
        let dir = tempfile::tempdir().unwrap();
        make_share(dir.path(), &mut Random(seed));
        for options in [&[][..], &["--target", "windows,s3"], &["--exclude", "d1*"]] {
            let of = |command: &[&'static str], keys| {
                suggested(&[command, &["--format", "json"], options].concat(), dir.path(), keys)
            };
            let keys = ["parent_inode", "name_hex", "repair", "repair_confidence"];
            let (scan, sorted) = (of(&["scan"], keys), of(&["scan", "--sort"], keys));
            let plan = of(&["fix", "plan"], ["directory_inode", "old_hex", "new", "confidence"]);
            for (scan, engine) in [(&scan, "getdents"), (&sorted, "walkdir")] {
                let differs = |key: &&(u64, String)| scan.get(*key) != plan.get(*key);
                let differing = scan.keys().chain(plan.keys()).find(differs);
                let two = differing.map(|key| (key, scan.get(key), plan.get(key)));
                assert_eq!(two, None, "scan, then plan; {engine}, seed {seed}, {options:?}");
            }
            all += scan.len();
            likely += scan.values().filter(|(_, label)| label == "likely").count();
        }
    }
    assert!(all > 500 && likely > all / 4, "{likely} of {all} are likely");
}
