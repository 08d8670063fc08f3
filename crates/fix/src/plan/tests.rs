use std::collections::BTreeMap;
use std::ops::ControlFlow;

use namegate_core::name::display::acts_or_hides;
use proptest::prelude::*;

use super::order::order_names;
use super::*;
use crate::stored_plan::{StoredPlan, StoredPlanError};

pub(crate) fn header() -> PlanHeader {
    PlanHeader {
        namegate: "1.2.3".into(),
        created: "2026-01-02T03:04:05Z".into(),
        roots: vec![PlanRoot { path: b"/srv/caf\xE9".to_vec(), inode: 7 }],
        profiles: vec!["strict".into()],
        policy: Some("profiles = [\"strict\"]\n".into()),
        encoding: "auto".into(),
        normalize: Some("nfc".into()),
        ..PlanHeader::default()
    }
}

fn directory(path: &[u8]) -> Arc<PlanDirectory> {
    let handle = Some(FileHandle { kind: -3, bytes: vec![0, 255, 7] });
    Arc::new(PlanDirectory { path: path.to_vec(), inode: u64::MAX, handle })
}

fn entry(kind: FileKind) -> SeenEntry {
    let time = InodeTime { seconds: -1, nanoseconds: 5 };
    SeenEntry { inode: 12, ctime: time, kind, birth: Some(SeenBirth { born: time, mtime: time, size: 9 }) }
}

pub(crate) fn rename(id: u64, dir: &[u8], old: &[u8], new: &str) -> Rename {
    Rename {
        id,
        directory: directory(dir),
        old: old.to_vec(),
        new: new.into(),
        entry: entry(FileKind::File),
        reasons: vec![RuleId::Truncated, RuleId::TrailingDot],
        confidence: Confidence::Likely,
        reading: "windows-1252".into(),
        evidence: Some("reads all 3 names".into()),
        alternatives: vec![Alternative { new: "cafй".into(), reading: "windows-1251".into() }],
    }
}

pub(crate) fn retarget() -> Retarget {
    Retarget {
        directory: directory(b"/srv/caf\xE9"),
        name: b"link".to_vec(),
        entry: entry(FileKind::Symlink),
        old_target: b"../caf\xE9//x".to_vec(),
        new_target: "../café//x".into(),
        after: vec![TargetPart { rename: 3, component: 1 }],
    }
}

pub(crate) fn skipped() -> Skipped {
    Skipped {
        directory: directory(b"/srv"),
        name: b"caf\xE9".to_vec(),
        reasons: vec![RuleId::CollisionCase],
        why: "no free name".into(),
    }
}

/// A line of each type.
pub(crate) fn lines() -> [PlanLine; 4] {
    let rename = rename(3, b"/srv/caf\xE9/sub", b"caf\xE9.", "café");
    [
        PlanLine::Header(header()),
        PlanLine::Rename(rename),
        PlanLine::Skipped(skipped()),
        PlanLine::Retarget(retarget()),
    ]
}

fn plan_text() -> String {
    let rename = rename(3, b"/srv/caf\xE9/sub", b"caf\xE9.", "café");
    let lines = [header().to_line(), rename.to_line(), skipped().to_line(), retarget().to_line()];
    lines.join("\n") + "\n"
}

/// The lines of a plan, each parsed by itself.
fn parse(text: &[u8]) -> Result<Vec<PlanLine>, Vec<PlanError>> {
    let mut parser = PlanParser::default();
    let lines = text.split(|&b| b == b'\n').filter_map(|line| parser.parse_line(line)).collect();
    parser.finish().map(|()| lines)
}

#[test]
fn a_plan_reads_back_as_it_was_written() {
    assert_eq!(parse(plan_text().as_bytes()).unwrap(), lines());
}

#[test]
fn what_acts_on_a_terminal_is_escaped_and_reads_back() {
    let name = "a\u{202E}b\u{7F}\u{85}\u{1F600}\u{E0041}\u{1B}[31m.txt";
    let rename = rename(1, "/srv/caf\u{200B}".as_bytes(), b"\x1B]0;x\x07", name);
    let line = rename.to_line();
    assert!(line.chars().all(|c| !acts_or_hides(c)), "{line}");
    let mut header = header();
    header.roots[0].path = b"/".to_vec();
    let lines = parse(format!("{}\n{line}", header.to_line()).as_bytes()).unwrap();
    assert_eq!(lines[1..], [PlanLine::Rename(rename)]);
}

/// The errors of the plan with `from` replaced by `to`.
fn errors_with(from: &str, to: &str) -> Vec<(usize, String)> {
    let text = plan_text();
    assert!(text.contains(from), "{from} is not in {text}");
    let errors = parse(text.replacen(from, to, 1).as_bytes()).expect_err("it has an error");
    errors.into_iter().map(|error| (error.line, error.message)).collect()
}

#[test]
fn every_error_is_reported_with_its_line() {
    let base64 = |path: &[u8]| BASE64.encode(path);
    let sub = base64(b"/srv/caf\xE9/sub");
    let cases: &[(&str, &str, usize, &str)] = &[
        (r#""version":1"#, r#""version":3"#, 1, "format version 3 is not supported"),
        (r#","size":9"#, "", 2, "`born`, `mtime` and `size` belong together"),
        (r#""encoding":"auto""#, r#""encodings":"auto""#, 1, "unknown field"),
        (r#""type":"rename""#, r#""type":"remove""#, 2, "unknown variant `remove`"),
        (r#""type":"rename","#, "", 2, "missing field `type`"),
        (r#""type":"rename""#, r#"type:"rename""#, 2, "key must be a string"),
        (r#""id":3,"old""#, r#""id":3,"id":4,"old""#, 2, "duplicate field `id`"),
        (r#""id":3,"old""#, r#""id":-3,"old""#, 2, "invalid value"),
        (r#""id":3,"old""#, r#""id":0,"old""#, 2, "`id` must be 1 or more"),
        (r#""new":"café""#, r#""new":"a/b""#, 2, "the new name `a/b` contains a `/`"),
        (r#""new":"café""#, r#""new":"..""#, 2, "is the name of the directory itself"),
        (r#""new":"café""#, r#""new":"""#, 2, "is empty"),
        (r#""new":"café""#, r#""new":"a\u0000b""#, 2, "contains a NUL"),
        (r#""new":"café""#, r#""new":"\ud800""#, 2, "(column"),
        (r#""new":"café""#, r#""new":7"#, 2, "invalid type"),
        (r#""old":"caf\\xE9.""#, r#""old":"cafe""#, 2, "`old` differs from `old_hex`"),
        (r#""old_hex":"636166e92e""#, r#""old_hex":"636166e92""#, 2, "`636166e92` is not hexadecimal"),
        (
            r#""old_hex":"636166e92e""#,
            r#""old_hex":"2e2e""#,
            2,
            "the name in `old_hex` is the name of the directory",
        ),
        (r#""old_hex":"636166e92e""#, r#""old_hex":"2f""#, 2, "contains a `/`"),
        (r#""ctime":"-1.000000005""#, r#""ctime":"-1.5""#, 2, "`-1.5` is not a time"),
        (r#""kind":"file""#, r#""kind":"door""#, 2, "unknown variant `door`"),
        (r#""confidence":"likely""#, r#""confidence":"sure""#, 2, "unknown variant `sure`"),
        (r#""truncated""#, r#""truncate""#, 2, "did you mean `truncated`?"),
        (
            r#""directory_handle":"-3:AP8H""#,
            r#""directory_handle":"x""#,
            2,
            "`x` is not a kernel file handle",
        ),
        (&sub, &base64(b"/srv/caf\xE9/../../etc"), 2, "contains `.` or `..`"),
        (&sub, &base64(b"/etc"), 2, "is outside of the roots"),
        (&sub, &base64(b"/srv/caf\xE9x"), 2, "is outside of the roots"),
        (&sub, &base64(b"/srv"), 2, "is outside of the roots"),
        (&sub, &base64(b"srv"), 2, "is not absolute"),
        (&sub, &base64(b"/srv/caf\xE9//sub"), 2, "contains an empty component"),
        (&sub, &base64(b"/srv/caf\xE9/a\0b"), 2, "contains a NUL"),
        (&sub, "AAA", 2, "`AAA` is not base64"),
        (
            r#""component":1"#,
            r#""component":3"#,
            4,
            "`after` has the component 3; the target has 3 components",
        ),
        (
            r#""new_target":"../café//x""#,
            r#""new_target":"y""#,
            4,
            "`new_target` differs from `new_target_base64`",
        ),
        (
            r#""path_base64":"L3Nydi9jYWbp""#,
            r#""path":"/x","path_base64":"L3Nydi9jYWbp""#,
            1,
            "`path` differs from",
        ),
        (r#"{"type":"plan""#, "\u{1}", 1, "(column 1)"),
    ];
    for (from, to, line, message) in cases {
        let found = errors_with(from, to);
        assert!(
            found.iter().any(|(at, found)| at == line && found.contains(message)),
            "{from} -> {to}: {found:?}, not {message}"
        );
    }
}

#[test]
fn all_errors_are_reported_up_to_a_limit() {
    let mut text = header().to_line();
    for _ in 0..3 {
        text += "\nnonsense\n";
    }
    text += &rename(1, b"/srv/caf\xE9", b"a", "b").to_line();
    text += "\n";
    text += &rename(1, b"/srv/caf\xE9", b"a", "c").to_line();
    text += "\n";
    text += &rename(2, b"/srv/caf\xE9", b"a", "d").to_line();
    let Err(StoredPlanError::Lines(found)) = StoredPlan::read(text.as_bytes()) else {
        panic!("it has errors")
    };
    let lines: Vec<usize> = found.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 4, 6, 8, 9]);
    assert_eq!(found[3].to_string(), "line 8: a line above has the id 1 too");
    assert_eq!(found[4].to_string(), "line 9: line 7 renames `a` too");
    let found = parse("\u{1B}[31m\n".repeat(1000).as_bytes()).unwrap_err();
    assert_eq!(found.len(), 101);
    assert_eq!(found[100].to_string(), "and 900 more errors");
    assert!(found.iter().all(|error| !error.message.contains('\u{1B}')));
    assert!(parse(b"").is_err() && parse(b"\n\n").is_err());
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_next_is_read() {
    let long = "x".repeat(10 << 20);
    let mut first = rename(1, b"/srv/caf\xE9", b"a", "b");
    first.evidence = Some(long.clone());
    let text =
        [header().to_line(), first.to_line(), rename(2, b"/srv/caf\xE9", b"b", "c").to_line()].join("\n");
    let found = parse(text.as_bytes()).unwrap_err();
    assert_eq!(found.iter().map(|m| m.line).collect::<Vec<_>>(), [2]);
    let mut header = header();
    header.namegate = long;
    assert!(parse(header.to_line().as_bytes()).is_err());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(deep.as_bytes()).is_err());
}

#[test]
fn a_root_is_covered_with_what_is_below_it_and_its_own_name() {
    let header = header();
    for (dir, name, is_covered) in [
        (&b"/srv/caf\xE9"[..], &b"x"[..], true),
        (b"/srv/caf\xE9/y", b"x", true),
        (b"/srv", b"caf\xE9", true),
        (b"/srv", b"x", false),
        (b"/", b"srv", false),
        (b"/srv/caf", b"x", false),
    ] {
        assert_eq!(header.covers(dir, name), is_covered, "{dir:?} {name:?}");
    }
}

#[test]
fn times_parse_only_as_they_are_written() {
    for (seconds, nanoseconds) in [(0, 0), (-1, 999_999_999), (i64::MIN, 1), (i64::MAX, 5)] {
        let time = InodeTime { seconds, nanoseconds };
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    for text in
        ["", "1", "1.", ".000000000", "1.5", "+1.000000000", "01.000000000", "1.00000000x", "1.+00000000"]
    {
        assert!(text.parse::<InodeTime>().is_err(), "{text}");
    }
}

#[test]
fn components_of_a_target_are_replaced_and_everything_else_stays() {
    let cases: &[(&[u8], &[(usize, &[u8])], &[u8])] = &[
        (b"a", &[(0, b"b")], b"b"),
        (b"/a/b", &[(1, b"c")], b"/a/c"),
        (b"./../a//b/.", &[(2, b"x"), (3, b"y")], b"./../x//y/."),
        (b"a/", &[], b"a/"),
        (b"", &[(0, b"x")], b""),
    ];
    for (path, parts, expected) in cases {
        assert_eq!(replace_components(path, parts), *expected);
    }
    let new = |id| (id == 3).then_some(&b"x"[..]);
    assert_eq!(retarget().target(new), b"../x//x");
    assert_eq!(retarget().target(|_| None), retarget().old_target);
}

/// Renames the groups in a directory of names that map to their entries; fails where a rename would overwrite.
fn execute(
    names: &mut BTreeMap<Vec<u8>, usize>,
    renames: &[(&[u8], &[u8])],
    groups: &[Vec<usize>],
) -> Result<(), String> {
    for group in groups {
        for (&at, &next) in group.iter().zip(group.iter().cycle().skip(1)) {
            if group.len() > 1 && renames[at].1 != renames[next].0 {
                return Err(format!("{group:?} is not a cycle"));
            }
        }
        let taken = group.iter().map(|&at| names.remove(renames[at].0).ok_or("nothing to rename"));
        let entries = taken.collect::<Result<Vec<usize>, _>>()?;
        for (&at, entry) in group.iter().zip(entries) {
            if names.insert(renames[at].1.to_vec(), entry).is_some() {
                return Err(format!("{:?} was overwritten", renames[at].1));
            }
        }
    }
    Ok(())
}

#[test]
fn chains_are_ordered_and_cycles_are_groups() {
    let cases: &[(&str, &str, &[&[usize]])] = &[
        ("ab", "bc", &[&[1], &[0]]),
        ("abc", "bca", &[&[0, 1, 2]]),
        ("abx", "bay", &[&[0, 1], &[2]]),
        ("xab", "aba", &[&[1, 2], &[0]]),
        ("a", "a", &[]),
    ];
    for (old, new, expected) in cases {
        let renames: Vec<(&[u8], &[u8])> =
            (0..old.len()).map(|at| (&old.as_bytes()[at..=at], &new.as_bytes()[at..=at])).collect();
        assert_eq!(order_names(&renames), *expected, "{old} -> {new}");
    }
}

#[test]
fn the_deepest_directory_comes_first() {
    let renames = [
        rename(1, b"/srv/caf\xE9", b"b", "c"),
        rename(2, b"/srv/caf\xE9/b", b"x", "y"),
        rename(3, b"/srv/caf\xE9", b"a", "b"),
        rename(4, b"/srv", b"caf\xE9", "café"),
        rename(5, b"/srv/caf\xE9/b/x", b"x", "y"),
    ];
    let lines = [header().to_line()].into_iter().chain(renames.iter().map(Rename::to_line));
    let plan = StoredPlan::read(lines.collect::<Vec<_>>().join("\n").as_bytes()).unwrap();
    let (mut directories, mut found) = (plan.directories().unwrap(), Vec::new());
    while let Some(of_directory) = directories.next().unwrap() {
        let mut renames = Vec::new();
        let _ = of_directory.each(&mut |rename| {
            renames.push(rename.clone());
            Ok(ControlFlow::Continue(()))
        });
        let names: Vec<(&[u8], &[u8])> = renames.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
        let ids = order_names(&names).concat().into_iter().map(|at| renames[at].id);
        found.push((of_directory.directory.path.clone(), ids.collect::<Vec<u64>>()));
    }
    let expected: [(&[u8], &[u64]); 4] =
        [(b"/srv/caf\xE9/b/x", &[5]), (b"/srv/caf\xE9/b", &[2]), (b"/srv/caf\xE9", &[1, 3]), (b"/srv", &[4])];
    assert_eq!(found, expected.map(|(path, ids)| (path.to_vec(), ids.to_vec())));
}

#[test]
fn a_long_chain_and_a_long_cycle_need_no_stack_and_little_time() {
    const COUNT: usize = 200_000;
    let names: Vec<Vec<u8>> = (0..=COUNT).map(|n| n.to_string().into_bytes()).collect();
    let chain: Vec<(&[u8], &[u8])> = (0..COUNT).map(|n| (&*names[n], &*names[n + 1])).collect();
    assert_eq!(order_names(&chain).len(), COUNT);
    let cycle: Vec<(&[u8], &[u8])> = (0..COUNT).map(|n| (&*names[n], &*names[(n + 1) % COUNT])).collect();
    assert_eq!(order_names(&cycle).len(), 1);
    let swaps: Vec<(&[u8], &[u8])> = (0..COUNT).map(|n| (&*names[n], &*names[n ^ 1])).collect();
    assert_eq!(order_names(&swaps).len(), COUNT / 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_gives_every_entry_its_name_and_never_overwrites(
        shuffled in Just((0..24_u8).collect::<Vec<_>>()).prop_shuffle(),
        count in 0..12_usize,
        shared in prop::collection::vec(any::<bool>(), 12),
    ) {
        // Old names are 0..12; new names are any of 0..24, as long as no entry that stays has them.
        let olds: Vec<u8> = shuffled.iter().copied().filter(|n| *n < 12).take(count).collect();
        let mut news = shuffled.iter().rev().copied().filter(|n| *n >= 12 || olds.contains(n));
        let mut renames = Vec::new();
        for (at, old) in olds.iter().enumerate() {
            let new = if shared[at] { olds[(at + 1) % olds.len()] } else { news.next().unwrap() };
            renames.push((vec![*old], vec![new]));
        }
        let mut seen = std::collections::BTreeSet::new();
        renames.retain(|(_, new)| seen.insert(new.clone()));
        // An entry whose rename was dropped stays, and blocks no other.
        let moving: Vec<Vec<u8>> = renames.iter().map(|(old, _)| old.clone()).collect();
        renames.retain(|(_, new)| new[0] >= 12 || moving.contains(new));
        let moving: Vec<Vec<u8>> = renames.iter().map(|(old, _)| old.clone()).collect();
        prop_assume!(renames.iter().all(|(_, new)| new[0] >= 12 || moving.contains(new)));
        let pairs: Vec<(&[u8], &[u8])> = renames.iter().map(|(old, new)| (&**old, &**new)).collect();
        let mut names: BTreeMap<Vec<u8>, usize> =
            (0..12_u8).map(|n| (vec![n], usize::from(n))).collect();
        let mut expected = names.clone();
        expected.retain(|name, _| !moving.contains(name));
        for (old, new) in &renames {
            prop_assert!(expected.insert(new.clone(), usize::from(old[0])).is_none());
        }
        let done = execute(&mut names, &pairs, &order_names(&pairs));
        prop_assert_eq!(done, Ok(()));
        prop_assert_eq!(names, expected);
    }

    #[test]
    fn any_record_reads_back_as_it_was_written(
        old in "[^/\0]{1,20}",
        new in "[^/\0]{1,20}",
        raw in prop::collection::vec(1_u8..=255, 1..20),
        target in prop::collection::vec(1_u8..=255, 1..20),
        why in ".*",
    ) {
        let raw: Vec<u8> = raw.into_iter().map(|b| if b == b'/' { b'_' } else { b }).collect();
        prop_assume!(name_objection(&raw).is_none() && name_objection(new.as_bytes()).is_none());
        prop_assume!(raw != new.as_bytes() && name_objection(old.as_bytes()).is_none());
        let mut header = header();
        header.roots[0].path = path_in(b"/", &raw);
        let dir = header.roots[0].path.clone();
        let mut written = rename(1, &dir, &raw, &new);
        written.evidence = Some(why.clone());
        let link = Retarget { name: raw.clone(), directory: directory(&dir), old_target: target.clone(), new_target: target, after: vec![], ..retarget() };
        let left = Skipped { name: raw, directory: directory(&dir), why, ..skipped() };
        let text = [header.to_line(), written.to_line(), link.to_line(), left.to_line()].join("\n");
        let lines = [PlanLine::Header(header), PlanLine::Rename(written), PlanLine::Retarget(link), PlanLine::Skipped(left)];
        prop_assert_eq!(parse(text.as_bytes()), Ok(lines.into()));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(text in prop::collection::vec(any::<u8>(), 0..200), at in 0..1000_usize, octet: u8) {
        let _ = (parse(&text), StoredPlan::read(&text[..]));
        let mut damaged = plan_text().into_bytes();
        let at = at % damaged.len();
        damaged[at] = octet;
        let _ = (parse(&damaged), StoredPlan::read(&damaged[..]));
    }
}

#[test]
fn lines_that_are_parsed_in_several_threads_are_compared_with_those_above() {
    const COUNT: u64 = 3000;
    let names: Vec<String> = (0..COUNT).map(|number| format!("{number}\u{e9}")).collect();
    let mut lines: Vec<String> = vec![header().to_line()];
    lines.extend(
        (1..).zip(&names).map(|(id, name)| rename(id, b"/srv/caf\xE9", name.as_bytes(), "new").to_line()),
    );
    let broken = [(700, "no json"), (2900, "{}")];
    broken.into_iter().for_each(|(at, text)| lines[at] = text.to_owned());
    lines[2000] = lines[20].clone();
    let text = lines.join("\n");
    let Err(StoredPlanError::Lines(found)) = StoredPlan::read(text.as_bytes()) else {
        panic!("it has errors")
    };
    assert_eq!(Err(found.clone()), parse(text.as_bytes()), "as line by line");
    let at: Vec<usize> = found.iter().map(|error| error.line).collect();
    assert_eq!(at, [701, 2001, 2901], "{found:?}");
    assert_eq!(found[1].message, "a line above has the id 20 too");
}

#[test]
fn the_renames_of_a_large_directory_are_read_again_from_the_store() {
    const COUNT: usize = 20_000;
    let names: Vec<String> = (0..COUNT).map(|number| format!("{number:05}\u{e9}")).collect();
    let mut lines = vec![header().to_line()];
    lines.extend(
        (1..).zip(&names).map(|(id, name)| rename(id, b"/srv/caf\xE9/b", name.as_bytes(), "new").to_line()),
    );
    lines.push(rename(COUNT as u64 + 1, b"/srv/caf\xE9", b"x", "y").to_line());
    let plan = StoredPlan::read(lines.join("\n").as_bytes()).unwrap();
    let mut directories = plan.directories().unwrap();
    let large = directories.next().unwrap().unwrap();
    for stop in [COUNT, 17_000, COUNT] {
        let mut found = Vec::new();
        let given = large.each(&mut |rename| {
            found.push(String::from_utf8(rename.old.clone()).unwrap());
            Ok(if found.len() < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        assert_eq!(given.unwrap(), ControlFlow::Break(()));
        assert_eq!(found, names[..stop]);
    }
    assert_eq!(*directories.next().unwrap().unwrap().directory.path, *b"/srv/caf\xE9");
    assert!(directories.next().unwrap().is_none());
}
