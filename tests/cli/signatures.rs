//! Byte order marks at the beginning of everything that the program reads, and texts in other encodings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use data_encoding::BASE64;
use serde_json::Value;

use namegate_testkit::program::{namegate, run_with, status, stderr, stdout};

const MARK: &[u8] = b"\xEF\xBB\xBF";

/// What the program reads, and the arguments that make it read that: `{}` is the file.
struct Input {
    name: &'static str,
    text: Vec<u8>,
    args: Vec<String>,
}

fn namegate_in(dir: &Path, args: &[String]) -> Output {
    let mut command = namegate();
    command.current_dir(dir).args(args).output().unwrap()
}

/// Everything that is read, each with its file in `dir`.
fn inputs(dir: &Path) -> Vec<Input> {
    fs::create_dir_all(dir.join("tree")).unwrap();
    fs::write(dir.join("tree/a:b"), "").unwrap();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let made = |line: &str| {
        let output = namegate_in(dir, &words(line));
        assert!(status(&output) < 2, "{line}: {}", stderr(&output));
    };
    made("fix plan tree --profile windows -o plan.jsonl");
    made("fix plan tree --profile windows -o plan.csv");
    made("scan tree --profile windows --write-baseline baseline");
    made("scan tree --profile windows -o found.jsonl");
    let read = |name: &str| {
        let text = fs::read(dir.join(name)).unwrap();
        text.strip_prefix(MARK).map(<[u8]>::to_vec).unwrap_or(text)
    };
    let input = |name, text: &[u8], line: &str| Input { name, text: text.to_vec(), args: words(line) };
    vec![
        input("list", b"d/x\nd/X\n", "scan --list {} --profile windows"),
        input("list of csv", b"key\nd/x\nd/X\n", "scan --list {} --list-format csv:key --profile windows"),
        input(
            "list of json",
            b"{\"k\":\"d/x\"}\n{\"k\":\"d/X\"}\n",
            "scan --list {} --list-format jsonl:k --profile windows",
        ),
        input("plan", &read("plan.jsonl"), "fix apply {} --dry-run"),
        input("plan as a table", &read("plan.csv"), "fix apply {} --dry-run"),
        input("findings", &read("found.jsonl"), "report {}"),
        input("baseline", &read("baseline"), "scan tree --profile windows --baseline {}"),
        input("map", b": -> _\n", "fix plan tree --map {} --format text"),
        input("configuration", b"profiles = [\"windows\"]\n", "scan tree --config {}"),
    ]
}

/// Runs the program on `text` in place of the input's.
fn run_on(dir: &Path, input: &Input, text: &[u8], more: &[&str]) -> Output {
    let file: PathBuf = dir.join("input");
    fs::write(&file, text).unwrap();
    let args: Vec<String> =
        input.args.iter().map(|arg| if arg == "{}" { "./input".to_owned() } else { arg.clone() }).collect();
    let args = more.iter().map(|&arg| arg.to_owned()).chain(args).collect::<Vec<_>>();
    namegate_in(dir, &args)
}

#[test]
fn a_byte_order_mark_is_no_part_of_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    for input in inputs(dir.path()) {
        let plain = run_on(dir.path(), &input, &input.text, &[]);
        let marked = run_on(dir.path(), &input, &[MARK, &input.text].concat(), &["-v"]);
        assert!(status(&plain) < 2, "{}: {}", input.name, stderr(&plain));
        assert_eq!(status(&marked), status(&plain), "{}: {}", input.name, stderr(&marked));
        assert_eq!(stdout(&marked), stdout(&plain), "{}", input.name);
        assert!(
            stderr(&marked).contains("skipping the byte order mark"),
            "{}: {}",
            input.name,
            stderr(&marked)
        );
        assert!(!stderr(&plain).contains("byte order mark"), "{}", input.name);
    }
    let hidden = run_with(["scan", "--list", "-", "--profile", "windows"], b"\xEF\xBB\xBFa/x\na/X\n");
    assert!(stdout(&hidden).contains("differs in case alone"), "{}", stdout(&hidden));
    let exact = run_with(["scan", "--list", "-", "-0", "--profile", "security"], b"\xEF\xBB\xBFa\0");
    assert!(stdout(&exact).contains("byte-order-mark"), "{}", stdout(&exact));
    let exact = run_with(["check", "--profile", "security"], b"\xEF\xBB\xBFa\n");
    assert_eq!(status(&exact), 1, "{}", stdout(&exact));
}

#[test]
fn a_text_in_utf16_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    for input in inputs(dir.path()) {
        let text = String::from_utf8(input.text.clone()).unwrap();
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let wide: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
        let cases = [
            ([b"\xFF\xFE", &little[..]].concat(), "iconv -f UTF-16 -t UTF-8"),
            ([b"\xFE\xFF", &big[..]].concat(), "iconv -f UTF-16 -t UTF-8"),
            ([b"\0\0\xFE\xFF", &wide[..]].concat(), "iconv -f UTF-32 -t UTF-8"),
        ];
        for (text, advice) in cases {
            let output = run_on(dir.path(), &input, &text, &[]);
            assert_eq!(status(&output), 2, "{}: {}", input.name, stdout(&output));
            assert!(stderr(&output).contains(advice), "{}: {}", input.name, stderr(&output));
        }
    }
    let output = run_with(["check"], b"\xFF\xFEa\0\n\0");
    assert!(status(&output) == 2 && stderr(&output).contains("UTF-16"), "{}", stderr(&output));
}

#[test]
fn lists_with_nul_in_their_lines_come_with_advice() {
    let utf16 = "dir/a\nb\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for list in [&b"dir/a\0dir/b\0"[..], &utf16] {
        let output = run_with(["scan", "--list", "-"], list);
        assert_eq!(status(&output), 1, "names with NUL are errors");
        let errors = stderr(&output);
        assert!(errors.contains("--null") && errors.contains("iconv -f UTF-16LE -t UTF-8"), "{errors}");
    }
    let utf16 =
        |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    for (list, order) in [
        (utf16("dir/a\nb\n", u16::to_be_bytes), "UTF-16BE"),
        (utf16("日本語\n二\n", u16::to_le_bytes), "UTF-16LE"),
    ] {
        let output = run_with(["scan", "--list", "-"], &list);
        let errors = stderr(&output);
        assert!(errors.contains(order) && errors.matches("iconv").count() == 1, "{errors}");
    }
    let output = run_with(["scan", "--list", "-", "--null"], b"dir/a\0dir/b\0");
    assert!(status(&output) == 0 && stderr(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn lone_surrogates_in_json_are_findings() {
    let list = [
        &b"{\"key\":\"d/\\ud800x\"}\n"[..],
        b"{\"a\":[0,{\"key\":\"caf\\udce9\"}],\"key\":\"ok\"}\n",
        b"{\"key\":\"\\ud83d\\ude00\"}\n",
        b"{\"key\":\"caf\xE9\"}\n",
        b"{\"key\":\"\\ud8\"}\n",
    ]
    .concat();
    let scan = |field: &str| {
        let args = ["scan", "--list", "-", "--format", "json", "--list-format", field];
        let output = run_with(args, &list);
        let lines = stdout(&output).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = lines.filter(|line| line["type"] == "finding").map(|line| {
            let path = BASE64.decode(line["path_base64"].as_str().unwrap().as_bytes()).unwrap();
            (path, line["item"].as_u64().unwrap(), line["violations"][0]["rule"].as_str().unwrap().to_owned())
        });
        (status(&output), found.collect::<Vec<_>>(), stderr(&output).to_owned())
    };
    let (code, mut found, errors) = scan("jsonl:key");
    found.sort();
    let of = |path: &[u8], item, rule: &str| (path.to_vec(), item, rule.to_owned());
    assert_eq!(found, [of(b"caf\xE9", 4, "truncated"), of(b"d/\xED\xA0\x80x", 1, "surrogate")]);
    assert_eq!(code, 2, "the last line is no JSON: {errors}");
    let (_, found, _) = scan("jsonl:/a/1/key");
    assert_eq!(found, [of(b"caf\xED\xB3\xA9", 2, "surrogate")]);
}
