use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::{AtomicU64, Ordering};

use namegate_core::name::reading::Encoding;
use namegate_core::policy::config::Config;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Confidence, Normalization, OnMismatch, Verdict, profile};
use namegate_findings::records::post_order;
use proptest::prelude::*;

use super::conversion::NameConversion;
use super::map::CharMap;
use super::*;
use crate::plan::check::check_renames;
use crate::plan::order::order_names;
use crate::plan::path_in;
use crate::plan::{FileKind, Rename, Retarget, Skipped, components};

#[derive(Default)]
struct ProblemCounter(AtomicU64);

impl Observer for ProblemCounter {
    fn problem(&self, problem: &dyn std::fmt::Display) {
        println!("{problem}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn policy(profiles: &[&str], form: Option<namegate_core::name::normalize::Form>) -> Policy {
    let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
    let mut config = Config::based_on(&profiles);
    config.severities.insert(RuleId::Mojibake, Some(Severity::Warn));
    config.normalization = form.map(|form| Normalization { form, on_mismatch: OnMismatch::Refuse });
    config.policy().unwrap()
}

pub(super) fn request(paths: &[&Path]) -> PlanRequest {
    PlanRequest {
        paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        exclude: Exclude::default(),
        max_depth: usize::MAX,
        crosses_file_systems: false,
        jobs: 2,
    }
}

/// The plan for some paths, as a whole.
fn planned(request: &PlanRequest, policy: &Policy, settings: &PlanSettings) -> (PlanDraft, Vec<Retarget>) {
    let observer = ProblemCounter::default();
    let mut draft = propose(request, policy, settings, &observer).unwrap();
    draft.finish_renames(policy, settings).unwrap();
    let ControlFlow::Continue(retargets) = draft.find_retargets(&observer).unwrap() else {
        panic!("nothing stops it")
    };
    assert_eq!(observer.0.into_inner(), 0, "everything can be read");
    (draft, retargets)
}

pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn directories(draft: &PlanDraft) -> Vec<DirectoryPlan> {
    let (mut directories, mut found) = (draft.directories().unwrap(), Vec::new());
    while let Some(planned) = directories.next().unwrap() {
        found.push(planned);
    }
    found
}

fn renames(draft: &PlanDraft) -> Vec<Rename> {
    directories(draft).into_iter().flat_map(|planned| planned.renames).collect()
}

fn skipped(draft: &PlanDraft) -> Vec<Skipped> {
    directories(draft).into_iter().flat_map(|planned| planned.skipped).collect()
}

/// The path that each path has after all renames.
fn new_paths(draft: &PlanDraft) -> impl Fn(&[u8]) -> Vec<u8> + use<> {
    let renames = renames(draft).into_iter();
    let names: BTreeMap<Vec<u8>, String> =
        renames.map(|rename| (path_in(&rename.directory.path, &rename.old), rename.new)).collect();
    move |path| {
        let (mut old, mut new) = (b"/".to_vec(), b"/".to_vec());
        for name in components(path) {
            old = path_in(&old, name);
            new = path_in(&new, names.get(&old).map_or(name, |name| name.as_bytes()));
        }
        new
    }
}

/// Executes a plan in the simplest way, and never overwrites an entry.
fn apply(draft: &PlanDraft, retargets: &[Retarget]) {
    let renames = renames(draft);
    // The lines come in the order of the work: deepest first, those of one directory together.
    for renames in renames.chunk_by(|a, b| a.directory.path == b.directory.path) {
        let names: Vec<(&[u8], &[u8])> = renames.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
        for group in order_names(&names) {
            let [at] = group[..] else { panic!("no proposed plan has a cycle: {group:?}") };
            let rename = &renames[at];
            let old = path_in(&rename.directory.path, &rename.old);
            let new = path_in(&rename.directory.path, rename.new.as_bytes());
            let meta = fs::symlink_metadata(path_of(&old)).unwrap();
            assert_eq!(meta.ino(), rename.entry.inode);
            assert_eq!(FileKind::from_mode(meta.mode()), Some(rename.entry.kind));
            assert!(fs::symlink_metadata(path_of(&new)).is_err(), "{new:?} is there");
            fs::rename(path_of(&old), path_of(&new)).unwrap();
        }
    }
    let new_names: BTreeMap<u64, &str> = renames.iter().map(|rename| (rename.id, &*rename.new)).collect();
    let new_path = new_paths(draft);
    for retarget in retargets {
        let target = retarget.target(|id| new_names.get(&id).map(|name| name.as_bytes()));
        assert_eq!(target, retarget.new_target);
        let link = new_path(&path_in(&retarget.directory.path, &retarget.name));
        let link = path_of(&link);
        assert_eq!(bytes(&fs::read_link(link).unwrap()), retarget.old_target);
        fs::remove_file(link).unwrap();
        symlink(path_of(&target), link).unwrap();
    }
}

/// Everything below `dir`, as paths.
fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(all_below(&entry.path()));
        }
        found.push(entry.path());
    }
    found.sort();
    found
}

fn make(root: &Path, tree: &[&[u8]]) {
    for path in tree {
        let path = root.join(path_of(path));
        if bytes(&path).ends_with(b"/") {
            fs::create_dir_all(&path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes(&path)).unwrap();
        }
    }
}

/// The new name of each path below `root` that is renamed.
fn new_names(draft: &PlanDraft, root: &Path) -> BTreeMap<Vec<u8>, String> {
    let renames = renames(draft);
    let below = |rename: &Rename| {
        let path = path_in(&rename.directory.path, &rename.old);
        let below =
            path_of(&path).strip_prefix(root.canonicalize().unwrap()).unwrap_or(path_of(&path)).to_owned();
        bytes(&below).to_vec()
    };
    renames.iter().map(|rename| (below(rename), rename.new.clone())).collect()
}

#[test]
fn links_follow_what_they_lead_to_and_no_other_link_changes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("tree");
    fs::create_dir(&root).unwrap();
    make(&root, &[b"caf\xE9", b"d\xE9/x\xE9", b"d\xE9/sub/y", b"plain/z", b"other/caf\xE9"]);
    make(dir.path(), &[b"outside/caf\xE9"]);
    let absolute = |path: &[u8]| path_in(bytes(&root), path);
    let outside = path_in(bytes(&dir.path().canonicalize().unwrap()), b"outside/caf\xE9");
    let links: &[(&str, &[u8], Option<&[u8]>)] = &[
        ("relative", b"caf\xE9", Some("café".as_bytes())),
        ("dotted", b"./plain/.././caf\xE9", Some("./plain/.././café".as_bytes())),
        ("plain/up", b"../caf\xE9", Some("../café".as_bytes())),
        ("absolute", &absolute(b"d\xE9/sub/y"), Some(&absolute("dé/sub/y".as_bytes()))),
        ("directory", b"d\xE9", Some("dé".as_bytes())),
        ("slash", b"d\xE9//", Some("dé//".as_bytes())),
        ("both", b"d\xE9/x\xE9", Some("dé/xé".as_bytes())),
        ("through", b"directory/x\xE9", Some("directory/xé".as_bytes())),
        ("through-slash", b"slash/x\xE9", Some("slash/xé".as_bytes())),
        ("through-and-up", b"directory/../caf\xE9", Some("directory/../café".as_bytes())),
        ("around", b"../tree/caf\xE9", Some("../tree/café".as_bytes())),
        // A component that does not exist is still looked up below a directory that moves.
        ("dangling-below", b"d\xE9/none\xE9", Some("dé/none\u{FFFD}".as_bytes())),
        ("dangling", b"none/caf\xE9", None),
        ("through-file", b"plain/z/caf\xE9", None),
        ("plain/same-name", b"caf\xE9", None),
        ("out", &outside, None),
        ("out-relative", b"../outside/caf\xE9", None),
        ("loop", b"loop/caf\xE9", None),
        ("plain/other", b"z", None),
    ];
    for (link, target, _) in links {
        symlink(path_of(target), root.join(link)).unwrap();
    }
    let (draft, retargets) =
        planned(&request(&[&root]), &policy(&["strict"], None), &PlanSettings::default());
    let found: BTreeMap<Vec<u8>, Vec<u8>> = retargets
        .iter()
        .map(|retarget| {
            let path = path_in(&retarget.directory.path, &retarget.name);
            (bytes(path_of(&path).strip_prefix(&root).unwrap()).to_vec(), retarget.new_target.clone())
        })
        .collect();
    for (link, _, expected) in links {
        // The component that does not exist keeps its bytes.
        let expected = expected.map(|target| match link.starts_with("dangling-") {
            true => "dé/none".bytes().chain([0xE9]).collect(),
            false => target.to_vec(),
        });
        assert_eq!(found.get(link.as_bytes()), expected.as_ref(), "{link}");
    }
    let ids: BTreeSet<u64> = renames(&draft).iter().map(|r| r.id).collect();
    assert!(retargets.iter().flat_map(|r| &r.after).all(|part| ids.contains(&part.rename)));
    apply(&draft, &retargets);
    for (link, _, expected) in links.iter().filter(|(link, ..)| !link.contains("dangling")) {
        assert_eq!(
            fs::metadata(root.join(link)).is_ok(),
            expected.is_some() || *link == "out" || *link == "out-relative" || *link == "plain/other",
            "{link}"
        );
    }
}

#[test]
fn what_is_utf_8_is_not_converted_again_and_what_was_encoded_twice_is() {
    let dir = tempfile::tempdir().unwrap();
    make(
        dir.path(),
        &["déjà vu".as_bytes(), "cafÃ©".as_bytes(), "CAFÉ™".as_bytes(), b"na\xEFve", b"r\xE9sum\xE9"],
    );
    for encoding in [None, Some(Encoding::WINDOWS_1252), Some("shift_jis".parse().unwrap())] {
        let settings = PlanSettings { encoding, ..PlanSettings::default() };
        let (draft, _) = planned(&request(&[dir.path()]), &policy(&["strict"], None), &settings);
        let found = new_names(&draft, dir.path());
        assert!(!found.contains_key("déjà vu".as_bytes()) && !found.contains_key("CAFÉ™".as_bytes()));
        assert_eq!(found["cafÃ©".as_bytes()], "café");
    }
    let (draft, _) = planned(&request(&[dir.path()]), &policy(&["strict"], None), &PlanSettings::default());
    let renames = renames(&draft);
    let mojibake = renames.iter().find(|rename| rename.new == "café").unwrap();
    assert_eq!(
        (mojibake.reading.as_str(), &*mojibake.reasons),
        ("UTF-8 read as windows-1252", &[RuleId::Mojibake][..])
    );
}

#[test]
fn how_sure_a_rename_is_and_how_it_came_about_is_told() {
    let dir = tempfile::tempdir().unwrap();
    make(
        dir.path(),
        &[
            b"many/r\xE9sum\xE9",
            b"many/na\xEFve",
            b"many/fa\xE7ade",
            b"one/\xE9",
            b"cafe\xCC\x81",
            b"con",
            b"x.",
            b"Y",
            b"y",
            b"map\xEF\x80\xA2",
            b"cesu\xED\xA1\x8C\xED\xBE\xB4",
        ],
    );
    let nfc = Some(namegate_core::name::normalize::Form::Nfc);
    let settings = PlanSettings {
        conversion: NameConversion {
            map: Some(CharMap::Known("sfm".parse().unwrap())),
            ..NameConversion::default()
        },
        ..PlanSettings::default()
    };
    let (draft, _) = planned(&request(&[dir.path()]), &policy(&["windows"], nfc), &settings);
    let renames = renames(&draft);
    let told: BTreeMap<&str, (Confidence, &str)> =
        renames.iter().map(|rename| (&*rename.new, (rename.confidence, &*rename.reading))).collect();
    let likely = |reading| (Confidence::Likely, reading);
    assert_eq!(told["résumé"], likely("windows-1252"));
    assert_eq!(told["é"], likely("windows-1252"), "as most names of the tree");
    make(dir.path(), &[b"strange/strange\xFF\xC1\x81"]);
    for single in ["one", "strange"] {
        let alone = PlanRequest { max_depth: 1, ..request(&[&dir.path().join(single)]) };
        let (alone, _) = planned(&alone, &policy(&["strict"], None), &PlanSettings::default());
        assert_eq!(self::renames(&alone)[0].confidence, Confidence::Guess, "{single}");
    }
    assert_eq!(told["café"], (Confidence::Certain, "normalize nfc"));
    assert_eq!(told["con_"], likely("repair"));
    assert_eq!(told["x"], likely("repair"));
    assert_eq!(told["map"], likely("map sfm"));
    assert_eq!(told["cesu\u{233B4}"], (Confidence::Certain, "CESU-8"));
    assert!(told.get("y_2").or(told.get("Y_2")).is_some_and(|told| *told == likely("number")), "{told:?}");
}

#[test]
fn roots_are_names_too_and_what_is_given_twice_is_planned_once() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    make(&base, &[b"r\xE9/a\xE9", b"r\xE9/sub/b\xE9", b"f\xE9", b"n\xE9", b"other\xE9"]);
    let [root, sub, file] = [&b"r\xE9"[..], b"r\xE9/sub", b"f\xE9"].map(|path| base.join(path_of(path)));
    symlink("x", base.join(path_of(b"l\xE9"))).unwrap();
    let link = base.join(path_of(b"l\xE9"));
    let request = request(&[&sub, &root, &file, &link, &root, &base.join("r\u{e9}/..")]);
    let paths: Vec<PathBuf> = request.paths[..5].to_vec();
    let (draft, _) =
        planned(&PlanRequest { paths, ..request }, &policy(&["strict"], None), &PlanSettings::default());
    let found: Vec<String> = new_names(&draft, &base).into_values().collect();
    assert_eq!(found, ["fé", "lé", "ré", "aé", "bé"]);
    assert_eq!(draft.roots.len(), 3, "{:?}", draft.roots);
    let planned_directories = directories(&draft);
    let dirs: Vec<&[u8]> = planned_directories.iter().map(|d| &*d.directory.path).collect();
    // A link to a directory that is read anyway is not followed: no entry is planned under two paths.
    let inner = base.join("inner");
    symlink(&sub, &inner).unwrap();
    for order in [[&inner, &root], [&root, &inner]] {
        let request = PlanRequest { paths: order.map(Clone::clone).to_vec(), ..self::request(&[]) };
        let (draft, _) = planned(&request, &policy(&["strict"], None), &PlanSettings::default());
        assert_eq!((draft.roots.len(), draft.counts().unwrap().renames), (1, 3), "{:?}", draft.roots);
    }
    let (alone, _) = planned(&self::request(&[&inner]), &policy(&["strict"], None), &PlanSettings::default());
    assert_eq!(directories(&alone)[0].directory.path, bytes(&inner), "by itself it is followed");
    assert!(dirs.is_sorted_by(|a, b| post_order(a, b).is_lt()), "{dirs:?}");
}

#[test]
fn what_is_left_out_is_neither_renamed_nor_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[b"caf\xE9", "café".as_bytes(), b"skip/x\xE9", b"deep/deeper/y\xE9"]);
    symlink(path_of(b"caf\xE9"), dir.path().join("link.skip")).unwrap();
    symlink(path_of(b"caf\xE9"), dir.path().join("link")).unwrap();
    let exclude = Exclude::new(["skip", "*.skip", "café"]).unwrap();
    let request = PlanRequest { exclude, max_depth: 2, ..request(&[dir.path()]) };
    let (draft, retargets) = planned(&request, &policy(&["strict"], None), &PlanSettings::default());
    let found: Vec<String> = new_names(&draft, dir.path()).into_values().collect();
    assert_eq!(found, ["café_2"]);
    assert_eq!(retargets.iter().map(|r| &*r.name).collect::<Vec<_>>(), [b"link"]);
}

#[test]
fn what_cannot_be_planned_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(120);
    make(dir.path(), &[format!("{long}/{long}/{long}").as_bytes(), b"good"]);
    let mut config = Config::based_on(&[]);
    config.limits.path_bytes = Some(300);
    config.reserved_characters = "_-xX0".into();
    let policy = config.policy().unwrap();
    let (draft, _) = planned(&request(&[dir.path()]), &policy, &PlanSettings::default());
    let skipped = skipped(&draft);
    let told: Vec<(&[u8], &[RuleId])> = skipped.iter().map(|s| (&*s.name, &*s.reasons)).collect();
    let long = long.as_bytes();
    assert!(told.contains(&(long, &[RuleId::ReservedCharacter])), "{told:?}");
    assert!(told.contains(&(long, &[RuleId::PathTooLong])), "{told:?}");
    assert_eq!(draft.counts().unwrap().renames, 0);
}

/// Invalid names of every kind that a plan handles, and some valid ones.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"caf\xE9"[..],
        b"CAF\xC9",
        "café".as_bytes(),
        "CAFÉ".as_bytes(),
        b"cafe\xCC\x81",
        "cafÃ©".as_bytes(),
        b"con",
        b"CON",
        b"Con_",
        b"con_",
        b"a:",
        b"a_",
        b"a_2",
        b"A_",
        b"x.",
        b"x",
        b"x ",
        b"X",
        b"-",
        b"\x01",
        b"a\nb",
        b"a b",
        b"\xFF\xFE",
        b"\xC0\xAF",
        b"\xED\xA0\x80",
        b"\xED\xA1\x8C\xED\xBE\xB4",
        b"\xEF\x80\xA2",
        b"\xE2\x90\xA6\x46\x46",
        b"\xC2\xA0",
        b"\x83\x41\x83\x42",
        b"d\xE9",
    ]);
    let wild = prop::collection::vec(1_u8..=255, 1..6)
        .prop_map(|name| name.into_iter().map(|b| if b == b'/' { b'_' } else { b }).collect::<Vec<u8>>())
        .prop_filter("a name", |name: &Vec<u8>| crate::plan::name_objection(name).is_none());
    let long =
        prop::sample::select(vec![vec![0xE9; 200], [&[0xE9; 100][..], b".txt"].concat(), vec![b'y'; 255]]);
    prop_oneof![6 => known.prop_map(<[u8]>::to_vec), 2 => wild, 1 => long]
}

/// Targets for a link: some of the existing paths, in different forms.
#[derive(Clone, Debug)]
struct LinkPlan {
    at: usize,
    to: usize,
    name: Vec<u8>,
    style: u8,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_loses_nothing_merges_nothing_and_leaves_nothing_to_be_planned(
        entries in prop::collection::vec((any::<prop::sample::Index>(), any_name(), any::<bool>()), 1..16),
        links in prop::collection::vec(
            (any::<u16>(), any::<u16>(), any_name(), 0..5_u8)
                .prop_map(|(at, to, name, style)| LinkPlan { at: at.into(), to: to.into(), name, style }),
            0..6,
        ),
        profiles in prop::sample::select(vec![vec!["strict"], vec!["windows"], vec!["portable"], vec!["utf8"]]),
        form in prop::sample::select(vec![None, Some(namegate_core::name::normalize::Form::Nfc), Some(namegate_core::name::normalize::Form::Nfd)]),
    ) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        let (mut dirs, mut paths) = (vec![root.clone()], vec![root.clone()]);
        for (at, name, is_dir) in &entries {
            let path = at.get(&dirs).join(path_of(name));
            let made = if *is_dir { fs::create_dir(&path) } else { fs::File::create_new(&path).map(drop) };
            if made.is_ok() {
                paths.push(path.clone());
                dirs.extend(is_dir.then_some(path));
            }
        }
        for link in &links {
            let container = &dirs[link.at % dirs.len()];
            let to = &paths[link.to % paths.len()];
            let ups = container.strip_prefix(&root).unwrap().components().count();
            let relative = Path::new("./").join("../".repeat(ups)).join(to.strip_prefix(&root).unwrap());
            let target = match link.style {
                0 => to.clone(),
                1 => relative,
                2 => relative.join("none"),
                3 => path_of(&link.name).to_path_buf(),
                _ => Path::new("../".repeat(ups + 1).as_str()).join("root").join(to.strip_prefix(&root).unwrap()),
            };
            let path = container.join(path_of(&link.name));
            if symlink(target, &path).is_ok() {
                paths.push(path);
            }
        }
        let policy = policy(&profiles, form);
        let before = all_below(&root);
        let inode = |path: &PathBuf| fs::metadata(path).ok().map(|meta| meta.ino());
        let led: Vec<Option<u64>> = before.iter().map(inode).collect();
        let request = request(&[&root]);
        let (draft, retargets) = planned(&request, &policy, &PlanSettings::default());
        for planned in &directories(&draft) {
            let listing = draft.list_names(&planned.directory).unwrap();
            let listing: Vec<&[u8]> = listing.iter().map(Vec::as_slice).collect();
            let renames: Vec<&Rename> = planned.renames.iter().collect();
            prop_assert_eq!(check_renames(Some(&policy), &listing, &renames), vec![]);
        }
        let new_path = new_paths(&draft);
        let expected: Vec<Vec<u8>> = before.iter().map(|path| new_path(bytes(path))).collect();
        apply(&draft, &retargets);
        let mut wanted: Vec<PathBuf> = expected.iter().map(|path| path_of(path).to_path_buf()).collect();
        for (path, before) in wanted.iter().zip(&led) {
            prop_assert_eq!(inode(path), *before, "{:?}", path);
        }
        wanted.sort();
        prop_assert_eq!(&all_below(&root), &wanted, "each entry is there under the name that was planned");
        let (again, _) = planned(&request, &policy, &PlanSettings::default());
        let renames = renames(&again);
        let names: Vec<_> = renames.iter().map(|r| (&r.old, &r.new)).collect();
        prop_assert!(names.is_empty(), "{:?}", names);
        let skipped: BTreeSet<Vec<u8>> =
            skipped(&again).iter().map(|one| path_in(&one.directory.path, &one.name)).collect();
        for path in &wanted {
            let name = bytes(path).rsplit(|&b| b == b'/').next().unwrap();
            let is_good = matches!(policy.verdict(name), Verdict::Accept(_));
            prop_assert!(is_good || skipped.contains(bytes(path)), "{:?}", path);
        }
        prop_assert!(components(bytes(&root)).count() > 1);
    }
}
