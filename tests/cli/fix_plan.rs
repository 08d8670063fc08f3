//! `namegate fix plan`, and what convmv makes of the same trees.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use namegate_fix::plan::order::order_names;
use namegate_fix::plan::{Rename, path_in};

use super::trees;
use crate::whole_plan::Plan;
use namegate_testkit::program::{namegate, run, run_with, status, stderr, stdout};

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn make(root: &Path, tree: &[&[u8]]) {
    for path in tree {
        let path = root.join(path_of(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
    }
}

/// What `fix plan` prints for these arguments and `root`, as a plan.
fn planned(root: &Path, options: &[&str]) -> Plan {
    let args = ["fix", "plan"].into_iter().chain(options.iter().copied()).map(OsStr::new);
    let output = run(args.chain([root.as_os_str()]));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    Plan::parse(&output.stdout).unwrap_or_else(|mistakes| panic!("{mistakes:?} in {}", stdout(&output)))
}

/// Does the renames of a plan.
fn apply(plan: &Plan) {
    // The lines come in the order of the work: deepest first, those of one directory together.
    for renames in plan.renames.chunk_by(|a, b| a.directory.path == b.directory.path) {
        let names: Vec<(&[u8], &[u8])> = renames.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
        for group in order_names(&names) {
            let [at] = group[..] else { panic!("{group:?}") };
            let Rename { directory, old, new, .. } = &renames[at];
            let [old, new] = [old, new.as_bytes()].map(|name| path_in(&directory.path, name));
            assert!(fs::symlink_metadata(path_of(&new)).is_err(), "{new:?} is there");
            fs::rename(path_of(&old), path_of(&new)).unwrap();
        }
    }
}

/// Everything below `root`, as paths from there.
fn below(root: &Path) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(root.join(&dir)).unwrap() {
            let entry = entry.unwrap();
            let path = dir.join(entry.file_name());
            found.insert(path.as_os_str().as_bytes().to_vec());
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

#[test]
fn a_plan_tells_each_rename_with_its_exact_bytes_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    make(&root, &[b"2019/caf\xE9.txt", b"d\xE9/x\xE9", b"CON.txt", b"good"]);
    symlink(path_of(b"2019/caf\xE9.txt"), root.join("link")).unwrap();
    let before = below(&root);
    let output =
        run([OsStr::new("fix"), "plan".as_ref(), "--profile".as_ref(), "windows".as_ref(), root.as_os_str()]);
    assert_eq!((status(&output), stderr(&output)), (0, ""));
    assert_eq!(below(&root), before);
    let plan = Plan::parse(&output.stdout).unwrap();
    let told: Vec<(&[u8], &str)> = plan.renames.iter().map(|r| (&*r.old, &*r.new)).collect();
    let expected: [(&[u8], &str); 4] =
        [(b"caf\xE9.txt", "café.txt"), (b"x\xE9", "xé"), (b"CON.txt", "CON_.txt"), (b"d\xE9", "dé")];
    assert_eq!(told, expected);
    assert_eq!(plan.renames.iter().map(|rename| rename.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(plan.retargets[0].new_target, "2019/café.txt".as_bytes());
    assert_eq!(plan.header.profiles, ["windows"]);
    assert_eq!(plan.header.roots[0].path, root.canonicalize().unwrap().as_os_str().as_bytes());
    assert!(plan.header.policy.unwrap().contains("windows"));
    apply(&Plan { retargets: Vec::new(), ..Plan::parse(&output.stdout).unwrap() });
    assert_eq!(
        status(&run([OsStr::new("fix"), "plan".as_ref(), "--profile=windows".as_ref(), root.as_os_str()])),
        0
    );
}

#[test]
fn every_line_satisfies_the_schema_that_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let tree: &[&[u8]] = &[
        b"caf\xE9",
        b"n\xE4h/\xFF\xFE",
        b"\x1B[31m\n",
        "\u{202E}x\u{7F}".as_bytes(),
        b"\xC0\xAF",
        b"con",
        b"A",
        b"a",
        b"cafe\xCC\x81",
        "cafÃ©".as_bytes(),
        b"x.\x01",
        b"_-xX0",
    ];
    make(dir.path(), tree);
    symlink(path_of(b"./caf\xE9/\n"), dir.path().join("l\n")).unwrap();
    symlink(path_of(b"caf\xE9"), dir.path().join(path_of(b"l\xE9"))).unwrap();
    let config = dir.path().join("config.toml");
    fs::write(&config, "reserved-characters = \"_-xX0\"\n[limits]\npath-bytes = 4\n").unwrap();
    let schema = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/plan.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_slice(&schema).unwrap()).unwrap();
    let mut types = BTreeSet::new();
    for options in [
        &["--profile", "windows,security", "--normalize", "nfc", "--map", "sfm"][..],
        &["--profile", "utf8", "--encoding", "koi8-r"],
        &["--config", config.to_str().unwrap()],
    ] {
        let args = ["fix", "plan"].iter().chain(options).map(OsStr::new).chain([dir.path().as_os_str()]);
        let output = run(args);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        for line in stdout(&output).lines() {
            assert!(!line.chars().any(char::is_control), "{line}");
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{line}: {errors:?}");
            types.insert(value["type"].as_str().unwrap().to_owned());
        }
        Plan::parse(&output.stdout).unwrap();
    }
    assert_eq!(types, ["plan", "rename", "retarget", "skipped"].map(String::from).into());
    for wrong in [
        r#"{"type":"rename","new":"x"}"#,
        r#"{"type":"skipped","name":"a","why":"","reasons":[],"name_hex":"6","directory_base64":"Lw==","directory_inode":1}"#,
    ] {
        assert!(!schema.is_valid(&serde_json::from_str(wrong).unwrap()), "{wrong}");
    }
}

#[test]
fn the_same_tree_gives_the_same_plan_whoever_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..40_u8 {
        let name =
            [b"d\xE9".as_slice(), &[b'a' + n % 20], b"/sub/x\xE9\xF1", &[b'a' + n / 2], &[b'0' + n % 7]]
                .concat();
        make(dir.path(), &[&name]);
        symlink(path_of(&name), dir.path().join(format!("l{n}"))).unwrap();
    }
    let lines = |jobs: &str| {
        let output =
            run([OsStr::new("fix"), "plan".as_ref(), "-j".as_ref(), jobs.as_ref(), dir.path().as_os_str()]);
        stdout(&output).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let one = lines("1");
    assert_eq!(one.len(), 20 + 40 + 40);
    assert_eq!(one, lines("8"));
    assert_eq!(one, lines("3"));
}

#[test]
fn the_status_is_0_for_a_complete_plan() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[b"good/name"]);
    let plan = |path: &Path| run([OsStr::new("fix"), "plan".as_ref(), path.as_os_str()]);
    let clean = plan(dir.path());
    assert_eq!((status(&clean), stdout(&clean).lines().count()), (0, 1));
    let lost = plan(&dir.path().join("none"));
    assert_eq!(status(&lost), 2);
    assert!(stderr(&lost).contains("cannot read") && stderr(&lost).contains("none"), "{}", stderr(&lost));
    make(dir.path(), &[b"\xE9"]);
    assert_eq!(status(&plan(dir.path())), 0);
    let both = run([OsStr::new("fix"), "plan".as_ref(), dir.path().as_os_str(), "none".as_ref()]);
    assert_eq!(status(&both), 2);
    assert_eq!(Plan::parse(&both.stdout).unwrap().renames.len(), 1, "what could be read is planned");
    for wrong in
        [&["--encoding", "utf-8"][..], &["--encoding", "nonsense"], &["--map", "x"], &["--exclude", "[z-a]"]]
    {
        let args = ["fix", "plan"].iter().chain(wrong).map(OsStr::new).chain([dir.path().as_os_str()]);
        assert_eq!(status(&run(args)), 2, "{wrong:?}");
    }
}

#[test]
fn a_file_gets_the_whole_plan_and_text_is_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    make(&root, &[b"caf\xE9.txt", b"\xE9\x1B[31m", b"\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E.", b"\xF6l"]);
    symlink(path_of(b"\xF6l"), root.join("link")).unwrap();
    let file = dir.path().join("plan.jsonl");
    let output = run([
        OsStr::new("fix"),
        "plan".as_ref(),
        "--profile=strict,windows".as_ref(),
        "-o".as_ref(),
        file.as_os_str(),
        "--format=text".as_ref(),
        root.as_os_str(),
    ]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let shown = stdout(&output).replace(root.canonicalize().unwrap().to_str().unwrap(), "ROOT");
    let expected = "\
ROOT
  caf\\xE9.txt     café.txt  truncated (likely: windows-1252)
  日本語.         日本語    trailing-dot (likely: repair)
  \\xE9\\u{1B}[31m  é         truncated, c0-control (likely: windows-1252)
  \\xF6l           öl        truncated (likely: windows-1252)

Symbolic links with a new target
  ROOT/link  \\xF6l → öl

4 renames, 1 new link target
";
    assert_eq!(shown, expected);
    let plan = Plan::parse(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((plan.renames.len(), plan.retargets.len()), (4, 1));
    let silent = run([OsStr::new("fix"), "plan".as_ref(), "-o".as_ref(), file.as_os_str(), root.as_os_str()]);
    assert_eq!((status(&silent), stdout(&silent)), (0, "3 renames, 1 new link target\n"));
    let nowhere = dir.path().join("none/plan");
    let lost =
        run([OsStr::new("fix"), "plan".as_ref(), "-o".as_ref(), nowhere.as_os_str(), root.as_os_str()]);
    assert_eq!(status(&lost), 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn a_plan_goes_to_standard_output_and_has_a_format_in_front_as_reports_have() {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("tree"), &[b"caf\xE9.txt"]);
    let fix = |options: &[&str]| {
        namegate().current_dir(dir.path()).args(["fix", "plan", "tree"]).args(options).output().unwrap()
    };
    let (plain, table) = (fix(&["-o", "-"]), fix(&["-o", "csv:-"]));
    assert!(stdout(&plain).starts_with("{\"type\":\"plan\""), "{}", stdout(&plain));
    assert!(stdout(&table).starts_with("\u{feff}type,"), "{}", stdout(&table));
    assert_eq!(status(&fix(&["-o", "csv:plan"])), 0);
    assert!(fs::read_to_string(dir.path().join("plan")).unwrap().starts_with("\u{feff}type,"));
    for options in [["-o", "csv:-", "--format", "json"], ["-o", "text:plan", "--format", "json"]] {
        assert_eq!(status(&fix(&options)), 2, "{options:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no file is named `-`");
}

#[test]
fn each_rename_or_all_of_a_rule_can_be_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[b"a\xE9", b"b\xE9", b"c\xE9", b"con", b"nul.txt", b"z.", b"y.", b"taken"]);
    let asked = |answers: &str| {
        let args =
            [OsStr::new("fix"), "plan".as_ref(), "--profile=windows".as_ref(), "--interactive".as_ref()];
        let output = run_with(args.into_iter().chain([dir.path().as_os_str()]), answers.as_bytes());
        let plan = Plan::parse(&output.stdout).unwrap();
        let names = plan.renames.into_iter().map(|rename| rename.new).collect::<Vec<_>>();
        (names.join(" "), stderr(&output).to_owned(), status(&output))
    };
    assert_eq!(asked("").0, "", "without an answer nothing is planned");
    assert_eq!(asked("").2, 0);
    assert_eq!(asked("y\nn\ny\nq\n").0, "aé con_");
    assert_eq!(asked("a\nd\nn\ny\n").0, "aé bé cé z");
    assert_eq!(asked("n\na\ny\nq\n").0, "bé con_ cé");
    let (names, told, _) = asked("e\nby hand\nq\n");
    assert_eq!(names, "by hand");
    assert!(told.contains("new name: ") && told.contains(r"a\xE9 → aé"), "{told}");
    let (names, told, _) = asked("e\ntaken\ne\nx/y\ne\nnul\ne\nbé\n?\ny\nq\n");
    assert_eq!(names, "aé");
    for part in [
        "taken exists and stays",
        "contains a `/`",
        "reserved-name",
        r"b\xE9 would get the same new name",
        "include this rename",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn characters_of_smb_mappings_are_taken_for_what_they_stand_for_or_put_in_their_place() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &["a\u{F022}b".as_bytes(), "sfu\u{F03A}".as_bytes(), "«catia»".as_bytes(), b"plain:"]);
    let new = |options: &[&str]| {
        planned(dir.path(), options).renames.into_iter().map(|rename| rename.new).collect::<Vec<_>>()
    };
    assert_eq!(new(&["--map", "sfm"]), ["a:b"]);
    assert_eq!(new(&["--map", "sfu"]), ["a\"b", "sfu:"]);
    assert_eq!(new(&["--map", "catia"]), ["<catia>"]);
    assert_eq!(new(&["--map", "to-sfm", "--profile", "windows,security"]), ["plain\u{F022}"]);
    assert_eq!(new(&["--map", "sfm", "--profile", "windows"]), ["a_b", "plain"]);
    assert_eq!(planned(dir.path(), &["--map", "sfm"]).header.map.as_deref(), Some("sfm"));
}

/// Texts, the encoding they are written in, what convmv calls that, and what is asked of namegate to read it.
type Legacy = (&'static str, &'static str, &'static str, &'static [&'static str]);

const LEGACY: &[Legacy] = &[
    (
        "iso-8859-15",
        "iso-8859-15",
        "auto",
        &[
            "Œuvres/été",
            "Œuvres/cœur.jpg",
            "Œuvres/prix 20 €.txt",
            "Œuvres/façade",
            "Œuvres/naïve.doc",
            "Œuvres/plain",
        ],
    ),
    (
        "shift_jis",
        "shiftjis",
        "auto",
        &[
            "新しいフォルダ/写真.jpg",
            "新しいフォルダ/会議の資料.doc",
            "新しいフォルダ/日本語.txt",
            "新しいフォルダ/表.xls",
            "plain/ソース",
        ],
    ),
    (
        "koi8-r",
        "koi8-r",
        "auto",
        &[
            "Документы/отчёт за год.txt",
            "Документы/письмо маме.doc",
            "Документы/Новая папка/фото",
            "музыка",
            "plain",
        ],
    ),
    (
        "ibm866",
        "cp866",
        "auto",
        &[
            "Документы/отчёт за год.txt",
            "Документы/письмо маме.doc",
            "Документы/Новая папка/фото",
            "музыка",
            "plain",
        ],
    ),
    (
        "euc-kr",
        "euc-kr",
        "auto",
        &["새 폴더/회의 자료.hwp", "새 폴더/사진.jpg", "새 폴더/음악.mp3", "문서/보고서", "plain"],
    ),
];

fn has_convmv() -> bool {
    Command::new("convmv").arg("--list").output().is_ok_and(|output| output.status.success())
}

/// Runs convmv over `root`.
fn convmv(root: &Path, options: &[&str]) {
    let output = Command::new("convmv").args(options).args(["--notest", "-r"]).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// How many of the paths are there.
fn right(root: &Path, wanted: &BTreeSet<Vec<u8>>) -> usize {
    below(root).intersection(wanted).count()
}

#[test]
fn trees_in_legacy_encodings_are_read_at_least_as_well_as_convmv_reads_them() {
    let with_convmv = has_convmv();
    if !with_convmv {
        println!("SKIPPED: there is no convmv to compare with");
    }
    for (encoding, of_convmv, asked, texts) in LEGACY {
        let writer = encoding_rs::Encoding::for_label(encoding.as_bytes()).unwrap();
        let write = |root: &Path| {
            for text in *texts {
                let (bytes, _, failed) = writer.encode(text);
                assert!(!failed, "{text} in {encoding}");
                make(root, &[&bytes]);
            }
            // What is UTF-8 is there already, and once in the way.
            make(root, &["schön.txt".as_bytes()]);
        };
        let dir = tempfile::tempdir().unwrap();
        let mut wanted: BTreeSet<Vec<u8>> = BTreeSet::from(["schön.txt".into()]);
        for text in *texts {
            wanted.extend(Path::new(text).ancestors().map(|path| path.as_os_str().as_bytes().to_vec()));
        }
        wanted.remove(&b""[..]);
        for how in [asked, encoding] {
            let ours = dir.path().join(format!("ours-{how}"));
            write(&ours);
            apply(&planned(&ours, &["--encoding", how, "--profile", "utf8"]));
            let found = below(&ours);
            assert_eq!(right(&ours, &wanted), wanted.len(), "{encoding} as {how}: {:?}", shown(&found));
            assert_eq!(found.len(), wanted.len());
        }
        if with_convmv {
            let theirs = dir.path().join("theirs");
            write(&theirs);
            convmv(&theirs, &["-f", of_convmv, "-t", "utf8", "--nfc"]);
            assert!(right(&theirs, &wanted) <= wanted.len());
            println!("{encoding}: convmv {} of {}", right(&theirs, &wanted), wanted.len());
        }
    }
}

fn shown(paths: &BTreeSet<Vec<u8>>) -> Vec<String> {
    paths.iter().map(|path| namegate_core::name::display::display(path).to_string()).collect()
}

#[test]
fn a_decomposed_tree_is_composed_as_convmv_composes_it_and_twins_are_kept_apart() {
    let names: &[&str] = &[
        "e\u{301}te\u{301}/na\u{308}ive",
        "e\u{301}te\u{301}/\u{1112}\u{1161}\u{11AB}",
        "Ångström",
        "A\u{30A}rhus",
    ];
    let dir = tempfile::tempdir().unwrap();
    let make_in = |name: &str| {
        let root = dir.path().join(name);
        make(&root, &names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
        root
    };
    let ours = make_in("ours");
    let plan = planned(&ours, &["--normalize", "nfc"]);
    assert!(plan.renames.iter().all(|rename| rename.confidence.as_str() == "certain"));
    apply(&plan);
    let composed = ["été", "été/näive", "été/한", "Ångström", "Århus"];
    let wanted: BTreeSet<Vec<u8>> = composed.iter().map(|name| name.as_bytes().to_vec()).collect();
    assert_eq!(shown(&below(&ours)), shown(&wanted));
    if has_convmv() {
        let theirs = make_in("theirs");
        convmv(&theirs, &["-f", "utf8", "-t", "utf8", "--nfc"]);
        assert!(right(&theirs, &wanted) <= wanted.len());
    } else {
        println!("SKIPPED: there is no convmv to compare with");
    }
    make(&ours, &["e\u{301}te\u{301}".as_bytes()]);
    let twins = planned(&ours, &["--normalize", "nfc"]);
    assert_eq!(twins.renames.iter().map(|rename| &*rename.new).collect::<Vec<_>>(), ["été_2"]);
}

#[test]
fn a_tree_deeper_than_path_max_and_a_large_directory_are_planned_whole() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("deep");
    trees::deep(&deep, 40, 5).unwrap();
    let output = run([OsStr::new("fix"), "plan".as_ref(), deep.as_os_str()]);
    let plan = Plan::parse(&output.stdout).unwrap();
    assert_eq!((status(&output), plan.renames.len()), (0, 41), "{}", stderr(&output));
    assert!(plan.renames[0].directory.path.len() > 7000);
    assert!(Command::new("rm").arg("-rf").arg(&deep).status().unwrap().success());
    let large = dir.path().join("large");
    fs::create_dir(&large).unwrap();
    for number in 0..4000 {
        fs::write(large.join(path_of(&[format!("{number:0>120}").as_bytes(), b"\xE9"].concat())), "")
            .unwrap();
    }
    fs::write(large.join(format!("{:0>120}é", 7)), "").unwrap();
    symlink(path_of(&[format!("{:0>120}", 8).as_bytes(), b"\xE9"].concat()), large.join("link")).unwrap();
    let plan = planned(&large, &[]);
    assert_eq!((plan.renames.len(), plan.retargets.len()), (4000, 1));
    assert_eq!(plan.renames[7].new, format!("{:0>120}é_2", 7));
    apply(&plan);
    assert_eq!(below(&large).len(), 4002);
}

/// A file system mounted for a test.
struct TestMount(PathBuf);

impl Drop for TestMount {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn other_file_systems_are_entered_only_when_asked_and_what_they_are_mounted_on_stays() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[b"a\xE9", b"m\xE9/below\xE9"]);
    let point = dir.path().join(path_of(b"m\xE9"));
    let flags = nix::mount::MsFlags::empty();
    let mounted = nix::mount::mount(Some("tmpfs"), &point, Some("tmpfs"), flags, None::<&str>);
    if let Err(error) = mounted {
        return println!("SKIPPED: nothing can be mounted here: {error}");
    }
    let _mounted = TestMount(point.clone());
    make(&point, &[b"inside\xE9"]);
    let new = |options: &[&str]| {
        let plan = planned(dir.path(), options);
        assert_eq!(plan.skipped.len(), 1);
        assert!(plan.skipped[0].name == b"m\xE9" && plan.skipped[0].why.contains("mounted on it"));
        plan.renames.into_iter().map(|rename| rename.new).collect::<Vec<_>>()
    };
    assert_eq!(new(&[]), ["aé"]);
    assert_eq!(new(&["--cross-file-systems"]), ["insideé", "aé"]);
}
