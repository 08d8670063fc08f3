//! `namegate scan --archive`: names that are not marked as UTF-8, against `lsar` of The Unarchiver.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::archive::{Entry, UTF8_FLAG, file, header, ran, scan, unicode_path, zip};
use namegate_testkit::program::{namegate, status, stdout};

/// Names, and how a program with another code page stores each.
type StoredNames = &'static [(&'static str, &'static [u8])];

const SETS: [(&str, StoredNames); 8] = [
    (
        "GBK",
        &[
            ("照片/雨中.jpg", b"\xD5\xD5\xC6\xAC/\xD3\xEA\xD6\xD0.jpg"),
            ("照片/女人.jpg", b"\xD5\xD5\xC6\xAC/\xC5\xAE\xC8\xCB.jpg"),
            ("童心/绿肥红瘦.txt", b"\xCD\xAF\xD0\xC4/\xC2\xCC\xB7\xCA\xBA\xEC\xCA\xDD.txt"),
            (
                "新建文件夹/说明书.doc",
                b"\xD0\xC2\xBD\xA8\xCE\xC4\xBC\xFE\xBC\xD0/\xCB\xB5\xC3\xF7\xCA\xE9.doc",
            ),
            ("拥抱艳阳天.txt", b"\xD3\xB5\xB1\xA7\xD1\xDE\xD1\xF4\xCC\xEC.txt"),
        ],
    ),
    (
        "Shift_JIS",
        &[
            (
                "新しいフォルダ/SJIS_835C_ソ.txt",
                b"\x90V\x82\xB5\x82\xA2\x83t\x83H\x83\x8B\x83_/SJIS_835C_\x83\x5C.txt",
            ),
            ("よむ (read).txt", b"\x82\xE6\x82\xDE (read).txt"),
            ("りどみ.txt", b"\x82\xE8\x82\xC7\x82\xDD.txt"),
            ("リドミ.txt", b"\x83\x8A\x83h\x83~.txt"),
            ("写真/夏休み.jpg", b"\x8E\xCA\x90^/\x89\xC4\x8Bx\x82\xDD.jpg"),
        ],
    ),
    (
        "Big5",
        &[
            ("功許蓋.txt", b"\xA5\x5C\xB3\x5C\xBB\x5C.txt"),
            ("新增資料夾/報告書.doc", b"\xB7s\xBCW\xB8\xEA\xAE\xC6\xA7\xA8/\xB3\xF8\xA7i\xAE\xD1.doc"),
            ("家庭聯絡單.pdf", b"\xAEa\xAEx\xC1p\xB5\xB8\xB3\xE6.pdf"),
            ("照片/臺灣.jpg", b"\xB7\xD3\xA4\xF9/\xBBO\xC6W.jpg"),
        ],
    ),
    (
        "EUC-KR",
        &[
            ("책선물용.txt", b"\xC3\xA5\xBC\xB1\xB9\xB0\xBF\xEB.txt"),
            ("새 폴더/보고서.hwp", b"\xBB\xF5 \xC6\xFA\xB4\xF5/\xBA\xB8\xB0\xED\xBC\xAD.hwp"),
            ("사진/여름휴가.jpg", b"\xBB\xE7\xC1\xF8/\xBF\xA9\xB8\xA7\xC8\xDE\xB0\xA1.jpg"),
            ("한글문서.doc", b"\xC7\xD1\xB1\xDB\xB9\xAE\xBC\xAD.doc"),
        ],
    ),
    (
        "IBM866",
        &[
            ("Новая папка/отчёт.doc", b"\x8D\xAE\xA2\xA0\xEF \xAF\xA0\xAF\xAA\xA0/\xAE\xE2\xE7\xF1\xE2.doc"),
            ("ваз.txt", b"\xA2\xA0\xA7.txt"),
            ("управление.xls", b"\xE3\xAF\xE0\xA0\xA2\xAB\xA5\xAD\xA8\xA5.xls"),
            ("фото/лето.jpg", b"\xE4\xAE\xE2\xAE/\xAB\xA5\xE2\xAE.jpg"),
        ],
    ),
    (
        "windows-1251",
        &[
            ("Новая папка/отчёт.doc", b"\xCD\xEE\xE2\xE0\xFF \xEF\xE0\xEF\xEA\xE0/\xEE\xF2\xF7\xB8\xF2.doc"),
            ("договор.txt", b"\xE4\xEE\xE3\xEE\xE2\xEE\xF0.txt"),
            ("управление.xls", b"\xF3\xEF\xF0\xE0\xE2\xEB\xE5\xED\xE8\xE5.xls"),
            ("фото/лето.jpg", b"\xF4\xEE\xF2\xEE/\xEB\xE5\xF2\xEE.jpg"),
        ],
    ),
    (
        "cp850",
        &[
            ("Übersicht/Größe 3.txt", b"\x9Abersicht/Gr\x94\xE1e 3.txt"),
            ("Müller & Söhne.doc", b"M\x81ller & S\x94hne.doc"),
            ("Façade.jpg", b"Fa\x87ade.jpg"),
            ("Straße.txt", b"Stra\xE1e.txt"),
            ("Ärger.txt", b"\x8Erger.txt"),
        ],
    ),
    (
        "cp862",
        &[
            (
                "אקולוגיה למהנדסים.pdf",
                b"\x80\x97\x85\x8C\x85\x82\x89\x84 \x8C\x8E\x84\x90\x83\x91\x89\x8D.pdf",
            ),
            ("תמונות/קיץ.jpg", b"\x9A\x8E\x85\x90\x85\x9A/\x97\x89\x95.jpg"),
            ("מסמך חדש.doc", b"\x8E\x91\x8E\x8A \x87\x83\x99.doc"),
        ],
    ),
];

fn stored(names: StoredNames) -> Vec<Entry> {
    names.iter().map(|&(_, bytes)| Entry::new(bytes)).collect()
}

/// The last names of all paths, as a policy reports them that objects to each.
fn names_of(bytes: &[u8], more: &[&str]) -> (Vec<String>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.toml");
    fs::write(&policy, "[limits]\nname-bytes = 1\n").unwrap();
    let policy = policy.to_str().unwrap().to_owned();
    let (_, mut objects) = scan(&file(&dir, bytes), &[&["--config", &policy], more].concat());
    let summary = objects.pop().unwrap();
    let path = |o: &Value| o["path"].as_str().unwrap_or_default().to_owned();
    (objects.iter().filter(|o| o["type"] == "finding").map(path).collect(), summary)
}

#[test]
fn names_without_a_mark_are_read_in_the_encoding_that_all_of_them_show() {
    for (encoding, names) in SETS {
        let (found, summary) = names_of(&zip(&stored(names)), &[]);
        for (name, _) in names {
            assert!(found.iter().any(|path| path == name), "{encoding}: {name} in {found:?}");
        }
        let unmarked = &summary["unmarked"];
        let expected = json!([encoding, "likely", names.len()]);
        let of = |line: &Value| json!([line["encoding"], line["confidence"], line["members"]]);
        assert_eq!(unmarked.as_array().map(|lines| lines.iter().map(of).collect()), Some(vec![expected]));
    }
}

/// Programs unpack them as they are, so they stay findings.
#[test]
fn names_of_a_tar_are_read_in_the_encoding_that_all_of_them_show() {
    for (encoding, names) in SETS {
        let members = names.iter().map(|(_, bytes)| header(bytes, b'0', 0)).collect::<Vec<_>>().concat();
        let dir = tempfile::tempdir().unwrap();
        let tar = file(&dir, &[members, vec![0; 1024]].concat());
        let (status, objects) = scan(&tar, &["--profile", "utf8"]);
        let summary = objects.last().unwrap();
        let unmarked = &summary["unmarked"];
        let of =
            |line: &Value| json!([line["encoding"], line["confidence"], line["members"], line["stored"]]);
        let expected = json!([encoding, "likely", names.len(), true]);
        assert_eq!(unmarked.as_array().map(|lines| lines.iter().map(of).collect()), Some(vec![expected]));
        assert_eq!((status, &summary["targets"][0]["verdict"]), (1, &json!("not-ready")), "{encoding}");
        let findings: Vec<&Value> = objects.iter().filter(|o| o["type"] == "finding").collect();
        assert!(findings.len() >= names.len(), "{encoding}");
        for finding in findings {
            let repair = finding["repair"].as_str().unwrap_or_default();
            assert!(names.iter().any(|(name, _)| name.split('/').any(|part| part == repair)), "{finding}");
        }
        let output =
            namegate().args(["scan", "--target", "windows", "--archive"]).arg(&tar).output().unwrap();
        let line = format!("names of {} members are not UTF-8: in {encoding} (likely)", names.len());
        assert!(stdout(&output).contains(&line), "{line}: {}", stdout(&output));
        let (status, objects) = scan(&tar, &["--profile", "utf8", "--archive-encoding", encoding]);
        assert_eq!(status, 0, "{encoding}: {objects:?}");
        let read = json!([encoding, "certain", names.len(), false]);
        assert_eq!(of(&objects.last().unwrap()["unmarked"][0]), read);
    }
}

/// The Unarchiver guesses one encoding for an archive.
#[test]
fn lsar_reads_no_set_of_names_better() {
    let dir = tempfile::tempdir().unwrap();
    let mut theirs = 0;
    for (encoding, names) in SETS {
        let path = file(&dir, &zip(&stored(names)));
        let mut lsar = Command::new("lsar");
        lsar.arg("-j").arg(&path);
        if !ran(&mut lsar) {
            return;
        }
        let listed: Value = serde_json::from_slice(&lsar.output().unwrap().stdout).unwrap();
        let listed: Vec<&str> = listed["lsarContents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| member["XADFileName"].as_str().unwrap_or_default())
            .collect();
        let is_right = names.iter().map(|(name, _)| *name).eq(listed.iter().copied());
        println!("{encoding}: lsar {}", if is_right { "right" } else { "wrong" });
        theirs += u32::from(is_right);
    }
    assert!(theirs < 8, "lsar reads every set");
}

#[test]
fn a_single_name_is_a_guess_and_no_target_is_ready_for_a_guess() {
    let dir = tempfile::tempdir().unwrap();
    // 책선물용 in EUC-KR: it could be GBK as well.
    let path = file(&dir, &zip(&[Entry::new(b"\xC3\xA5\xBC\xB1\xB9\xB0\xBF\xEB.txt")]));
    let text = |more: &[&str]| {
        let args = ["scan", "--target", "windows,s3", "--min-severity", "error", "--archive"];
        let output = namegate().args(args).arg(&path).args(more).output().unwrap();
        (status(&output), stdout(&output).to_owned())
    };
    let (code, guessed) = text(&[]);
    assert!(guessed.starts_with("uncertain  no finding"), "{guessed}");
    assert!(
        guessed.contains("names of 1 member are not marked as UTF-8: read as EUC-KR (guess)"),
        "{guessed}"
    );
    assert!(
        guessed.contains("verdict: uncertain for windows, s3: it depends on a guessed encoding"),
        "{guessed}"
    );
    assert!(!guessed.contains(" ready\n"), "{guessed}");
    assert_eq!(code, 0, "there is no finding");
    let (_, asked) = text(&["--archive-encoding", "euc-kr"]);
    assert!(asked.starts_with("clean") && asked.contains("read as EUC-KR (as asked)"), "{asked}");
    assert!(asked.contains("verdict: ready for windows, s3\n"), "{asked}");
    let report = dir.path().join("found.jsonl");
    fs::write(
        &report,
        namegate()
            .args(["scan", "--format", "json", "--target", "windows", "--archive"])
            .arg(&path)
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap();
    let stored = namegate().arg("report").arg(&report).output().unwrap();
    assert!(stdout(&stored).contains("read as EUC-KR (guess)"), "{}", stdout(&stored));
    let sarif = namegate().args(["scan", "--format", "sarif", "--archive"]).arg(&path).output().unwrap();
    let sarif: Value = serde_json::from_slice(&sarif.stdout).unwrap();
    let notes = &sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    assert!(notes[0]["message"]["text"].as_str().unwrap().contains("EUC-KR (guess)"), "{notes}");
}

#[test]
fn marks_win_and_tell_nothing_about_names_without_one() {
    let gbk = SETS[0].1;
    let utf8 = Entry { flags: UTF8_FLAG, ..Entry::new("Größe".as_bytes()) };
    let field = Entry { extra: unicode_path(gbk[1].1, "other".as_bytes()), ..Entry::new(gbk[1].1) };
    let entries = [stored(gbk), vec![utf8, field]].concat();
    let (found, summary) = names_of(&zip(&entries), &[]);
    for name in ["Größe", "other", "拥抱艳阳天.txt"] {
        assert!(found.iter().any(|path| path == name), "{name} in {found:?}");
    }
    assert_eq!(summary["unmarked"][0]["members"], gbk.len());
    let (_, summary) = names_of(&zip(&entries[gbk.len()..]), &[]);
    assert_eq!(summary["unmarked"], Value::Null, "all names are marked");
}

#[test]
fn an_archive_of_many_names_is_read_as_its_few_are() {
    let mut entries = Vec::new();
    for number in 0..3000 {
        let (_, name) = SETS[1].1[number % 5];
        entries.push(Entry::new([format!("{number:05} ").as_bytes(), name].concat()));
    }
    let (found, summary) = names_of(&zip(&entries), &[]);
    assert!(found.iter().any(|path| path.ends_with("/SJIS_835C_ソ.txt")), "{:?}", &found[..5]);
    let unmarked = &summary["unmarked"];
    assert_eq!((&unmarked[0]["encoding"], &unmarked[0]["members"]), (&json!("Shift_JIS"), &json!(3000)));
}
