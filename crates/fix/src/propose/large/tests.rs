use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;

use namegate_core::name::normalize::Form;
use namegate_core::policy::config::Config;
use namegate_core::policy::{Normalization, OnMismatch, Policy, profile};
use namegate_scan::progress::NoProgress;
use namegate_scan::source::scope::{Exclude, Scope};
use namegate_scan::source::tree::Tree;
use namegate_scan::source::{Source, SourceEvent};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::super::conversion::NameConversion;
use super::super::map::CharMap;
use super::super::root_set::RootSet;
use super::super::tests::{self, path_of as path};
use super::super::{PlanDraft, PlanReader, PlanSettings, TreeFindings, propose};
use super::*;
use crate::propose::PlanRequest;

/// A directory that is handed over in parts.
#[derive(Debug)]
struct SmallParts(Vec<DirectoryBatch>);

impl SmallParts {
    fn new(mut whole: DirectoryBatch, len: usize) -> Self {
        let names: Vec<&[u8]> = whole.names.iter().map(|(_, name)| name).collect();
        let mut parts: Vec<DirectoryBatch> = names
            .chunks(len)
            .map(|names| {
                let mut part = DirectoryBatch::new(whole.dir.clone(), whole.root_len);
                names.iter().for_each(|name| part.push(name));
                part
            })
            .collect();
        if let Some(last) = parts.last_mut() {
            last.siblings = std::mem::replace(&mut whole.siblings, SiblingNames::None);
            last.has_links = whole.has_links;
        }
        Self(parts)
    }
}

impl Parts for SmallParts {
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch)) {
        self.0.iter().for_each(take);
    }
}

fn request(root: &Path, exclude: &[&str]) -> PlanRequest {
    let exclude = Exclude::new(exclude.iter().copied()).unwrap();
    PlanRequest { exclude, ..tests::request(&[root]) }
}

/// The lines of the plan if each directory is handed over in parts of `len` names.
fn in_parts(request: &PlanRequest, policy: &Policy, settings: &PlanSettings, len: usize) -> Vec<String> {
    in_parts_with(request, policy, settings, len, || {})
}

/// The same, and calls `before_review` when all directories have been read.
fn in_parts_with(
    request: &PlanRequest,
    policy: &Policy,
    settings: &PlanSettings,
    len: usize,
    before_review: impl FnOnce(),
) -> Vec<String> {
    let root_set = RootSet::open(&request.paths);
    let scope = Scope { max_depth: usize::MAX, one_file_system: true, exclude: request.exclude.clone() };
    let reader = PlanReader {
        proposer: NameProposer { policy, settings, advice: None, jobs: 2 },
        observer: &NoProgress,
        root_set: &root_set,
        found: Mutex::default(),
    };
    Tree::new(root_set.paths(), scope, 1).read(&|event| match event {
        SourceEvent::Directory(batch) if batch.is_whole() && batch.count > 0 => {
            reader.handle(SourceEvent::Large(&mut SmallParts::new(batch, len)), None)
        }
        event => reader.handle(event, None),
    });
    before_review();
    reader.review_encodings(&request.exclude).unwrap();
    let TreeFindings { lines, linked, failure, .. } = reader.found.into_inner();
    assert!(failure.is_none(), "{failure:?}");
    let (lines, linked) = (lines.finish().unwrap(), linked.finish().unwrap());
    finished(PlanDraft::new(root_set, request.exclude.clone(), lines, linked), policy, settings)
}

fn finished(mut draft: PlanDraft, policy: &Policy, settings: &PlanSettings) -> Vec<String> {
    draft.finish_renames(policy, settings).unwrap();
    let mut lines = Vec::new();
    let mut add = |line: &str| {
        lines.push(line.to_owned());
        Ok(())
    };
    draft.each_line(&mut add).unwrap();
    let ControlFlow::Continue(retargets) = draft.find_retargets(&NoProgress).unwrap() else {
        panic!("nothing stops it")
    };
    lines.extend(retargets.iter().map(|retarget| format!("{retarget:?}")));
    lines
}

/// Names that compete for the same suggested names, such as collide, and others.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let forms: Vec<&[u8]> = vec![
        b"a#:b",
        b"a#?b",
        b"a#_b",
        b"a#_b_2",
        b"a#:b_2",
        b"a#|b_2",
        b"a#_B_3",
        b"A#_b",
        b"A#:B",
        b"good name #",
        b"Read #",
        b"read #",
        b"caf\xE9 #",
        "caf\u{e9} #".as_bytes(),
        "cafe\u{301} #".as_bytes(),
        "cafÃ© #".as_bytes(),
        "¼# ﬁ".as_bytes(),
        b"Stra\xDFe und \xDCbersicht #",
        b"\x83e\x83X\x83g #",
        b"x\xED\xA1\x8C\xED\xBE\xB4#",
        b"con.#",
        b"map\xEF\x80\xA2#",
        b"line\n#.",
        b".git ",
    ];
    (prop::sample::select(forms), 0..3_u8).prop_map(|(form, number)| {
        form.iter().map(|&byte| if byte == b'#' { b'0' + number } else { byte }).collect()
    })
}

fn policy(profiles: &[&str], form: Option<Form>) -> Policy {
    let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
    let mut config = Config::based_on(&profiles);
    config.normalization = form.map(|form| Normalization { form, on_mismatch: OnMismatch::Convert });
    config.policy().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_in_parts_is_the_same_as_in_the_whole(
        names in prop::collection::vec(any_name(), 1..40),
        below in prop::collection::vec(any_name(), 0..6),
        profiles in prop::sample::select(vec![
            vec!["utf8"], vec!["strict"], vec!["windows"], vec!["portable"], vec!["windows", "macos", "s3"],
        ]),
        form in prop::sample::select(vec![None, None, Some(Form::Nfc), Some(Form::Nfd)]),
        exclude in prop::sample::select(vec![&[][..], &["a1_b*", "Read*"], &["*\u{e9}*"]]),
        (map, is_ascii) in prop::sample::select(vec![(None, false), (Some("sfm"), false), (None, true)]),
        prefix_len in prop::sample::select(vec![0, 0, 230]),
        len in 1..9_usize,
    ) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root.join("below")).unwrap();
        for (at, name) in names.iter().enumerate() {
            // A name may come twice.
            let made = if at % 5 == 0 { symlink(path(&names[at / 2]), root.join(path(name))) } else { fs::File::create_new(root.join(path(name))).map(drop) };
            drop(made);
        }
        for name in &below {
            drop(fs::File::create_new(root.join("below").join(path(name))));
        }
        let policy = policy(&profiles, form);
        let settings = PlanSettings {
            conversion: NameConversion {
                map: map.map(|map| CharMap::Known(map.parse().unwrap())),
                transliterates: is_ascii,
                ..NameConversion::default()
            },
            prefix: vec![b'p'; prefix_len],
            ..PlanSettings::default()
        };
        let request = request(&root, exclude);
        let whole = finished(propose(&request, &policy, &settings, &NoProgress).unwrap(), &policy, &settings);
        prop_assert_eq!(in_parts(&request, &policy, &settings, len), whole);
    }
}

#[test]
fn a_large_directory_with_guesses_is_reviewed_with_the_rest_of_the_tree() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    let make = |dir: &str, name: Vec<u8>| {
        fs::create_dir_all(root.join(dir)).unwrap();
        fs::File::create_new(root.join(dir).join(path(&name))).unwrap();
    };
    // More names than one part holds; one of them must be guessed.
    for number in 0..2600 {
        make("large", format!("{}:{number}", "x".repeat(110)).into_bytes());
    }
    make("large", b"\xE4\xF0\xF3\xE3".to_vec());
    for number in 0..40 {
        make(
            "others",
            [b"\xCF\xF0\xE8\xE2\xE5\xF2 \xE4\xF0\xF3\xE7\xFC\xFF", number.to_string().as_bytes()].concat(),
        );
    }
    let policy = policy(&["windows"], None);
    let lines_of = |dir: &str| {
        let request = request(&root.join(dir), &[]);
        let settings = PlanSettings::default();
        let lines = finished(propose(&request, &policy, &settings, &NoProgress).unwrap(), &policy, &settings);
        let (guessed, mut others): (Vec<String>, _) = lines
            .into_iter()
            .filter(|line| line.contains("/large"))
            .partition(|line| line.contains("evidence"));
        others.iter_mut().for_each(|line| drop(line.drain(..line.find("\"old\"").unwrap())));
        (guessed, others)
    };
    let (alone, reviewed) = (lines_of("large"), lines_of(""));
    assert_eq!((alone.1.len(), &alone.1), (2600, &reviewed.1));
    let [first, last] = [alone.0, reviewed.0].map(|lines| <[String; 1]>::try_from(lines).unwrap());
    assert!(first[0].contains("\"guess\"") && first[0].contains("from this name alone"), "{}", first[0]);
    assert!(
        last[0].contains("\"new\":\"друг\"") && last[0].contains("in the rest of the tree"),
        "{}",
        last[0]
    );
}

/// The lines of the plan for `root`, whose directories come in parts of four names; it is the same as that of whole directories.
fn lines_in_parts(root: &Path, before_review: impl FnOnce()) -> Vec<String> {
    let (request, policy, settings) = (request(root, &[]), policy(&["utf8"], None), PlanSettings::default());
    let whole = finished(propose(&request, &policy, &settings, &NoProgress).unwrap(), &policy, &settings);
    let lines = in_parts_with(&request, &policy, &settings, 4, before_review);
    assert_eq!(lines, whole);
    lines
}

fn make_names(dir: &Path, names: &[&[u8]]) {
    fs::create_dir(dir).unwrap();
    names.iter().for_each(|name| drop(fs::File::create_new(dir.join(path(name))).unwrap()));
}

const CYRILLIC_GUESS: &[u8] = b"\xE4\xF0\xF3\xE3";
const GUESSES: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e", CYRILLIC_GUESS];

#[test]
fn a_large_directory_is_read_once_if_no_other_name_says_more_about_its_guesses() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    make_names(&root.join("guesses"), GUESSES);
    make_names(&root.join("others"), &[b"f", "\u{e9}".as_bytes()]);
    let lines = lines_in_parts(&root, || fs::remove_dir_all(root.join("guesses")).unwrap());
    assert!(lines.len() == 1 && lines[0].contains("from this name alone"), "{lines:?}");
}

#[test]
fn a_large_directory_with_guesses_changes_another_one_and_keeps_its_own_lines() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    make_names(&root.join("first"), GUESSES);
    let alone = lines_in_parts(&root.join("first"), || {});
    assert!(alone[0].contains("from this name alone"), "{alone:?}");
    make_names(&root.join("second"), &[b"a", b"b", b"c", b"d", b"\xEF\xF0\xE8"]);
    // The name in the first directory is too little to be evidence.
    let lines = lines_in_parts(&root, || fs::remove_dir_all(root.join("second")).unwrap());
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("in the rest of the tree"), "{lines:?}");
    assert!(lines[1].contains("from this name alone"), "{lines:?}");
}
