//! Findings do not depend on how an engine distributes keys and pairs among its tasks.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod rows;

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, Int32Array, LargeBinaryArray, NullArray,
    RecordBatch, StringArray,
};
use namegate_arrow::{
    CandidateChecker, CandidateFinder, CheckSettings, DirectoryChecker, PairSettings, PairSplitter,
    TaskSummary, number_names, schema,
};
use namegate_core::name::escape::stable_hash;
use namegate_core::policy::{Policy, profile};
use namegate_findings::decode::Decoding;
use namegate_findings::split::{MAX_EXPANDED, MAX_NAME, MAX_PARTS, Shape, TOO_DEEP};
use proptest::prelude::*;

type Key = Option<Vec<u8>>;

fn settings(profiles: &[&str], memory: usize) -> CheckSettings {
    let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
    CheckSettings { memory, ..CheckSettings::new(Arc::new(Policy::from_profiles(&profiles))) }
}

fn pairs(settings: PairSettings, columns: &[ArrayRef]) -> Vec<RecordBatch> {
    let (mut splitter, mut pairs) = (PairSplitter::new(settings), Vec::new());
    for column in columns {
        splitter.split(column, &mut |batch| pairs.push(batch)).unwrap();
    }
    pairs
}

fn check(settings: CheckSettings, pairs: &[RecordBatch]) -> (Vec<RecordBatch>, TaskSummary) {
    let mut checker = DirectoryChecker::new(settings);
    let mut found: Vec<RecordBatch> = pairs.iter().flat_map(|batch| checker.add(batch).unwrap()).collect();
    let mut reader = checker.finish().unwrap();
    found.extend(reader.by_ref().map(Result::unwrap));
    assert!(found.iter().all(|batch| batch.num_rows() > 0 && batch.schema() == schema::findings()));
    (found, reader.summary().clone())
}

/// What a shuffle does: each pair goes to the task of its parent.
fn shuffle(batches: &[RecordBatch], tasks: usize) -> Vec<RecordBatch> {
    type Builders = (BinaryBuilder, BinaryBuilder, StringBuilder, StringBuilder);
    let mut builders: Vec<Builders> = (0..tasks).map(|_| Default::default()).collect();
    for batch in batches {
        let [parents, names] = [0, 1].map(|at| batch.column(at).as_binary::<i32>());
        let [faults, entries] = [2, 3].map(|at| batch.column(at).as_string::<i32>());
        for at in 0..batch.num_rows() {
            let parent = parents.is_valid(at).then(|| parents.value(at));
            let task = stable_hash(parent.unwrap_or_default()) % tasks as u64;
            let (of_parent, of_name, of_fault, of_entry) = &mut builders[task as usize];
            of_parent.append_option(parent);
            of_name.append_option(names.is_valid(at).then(|| names.value(at)));
            of_fault.append_option(faults.is_valid(at).then(|| faults.value(at)));
            of_entry.append_option(entries.is_valid(at).then(|| entries.value(at)));
        }
    }
    let batch = |(mut parents, mut names, mut faults, mut entries): Builders| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(parents.finish()),
            Arc::new(names.finish()),
            Arc::new(faults.finish()),
            Arc::new(entries.finish()),
        ];
        RecordBatch::try_new(schema::pairs(), columns).unwrap()
    };
    builders.into_iter().map(batch).collect()
}

/// The keys in one of the layouts that engines use.
fn column(layout: usize, keys: &[Key]) -> ArrayRef {
    let keys = || keys.iter().map(Option::as_deref);
    match layout {
        0 => Arc::new(BinaryArray::from_iter(keys())),
        1 => Arc::new(LargeBinaryArray::from_iter(keys())),
        2 => Arc::new(BinaryViewArray::from_iter(keys())),
        _ => {
            let values = Arc::new(BinaryArray::from_iter(keys()));
            let indexes = Int32Array::from_iter((0..).zip(keys()).map(|(at, key)| key.map(|_| at)));
            Arc::new(DictionaryArray::<Int32Type>::new(indexes, values))
        }
    }
}

fn component() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"a",
        b"A",
        b"README",
        b"readme",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        b"caf\xE9",
        b"con",
        b"a:b",
        b"a_b",
        b"",
        b".",
        b"..",
        b"x\0y",
        b"end ",
        b"end.",
        b"end",
        b"\xFF\xFE",
        b"plain-name.txt",
    ];
    prop_oneof![9 => proptest::sample::select(words).prop_map(<[u8]>::to_vec), 1 => proptest::collection::vec(any::<u8>(), 0..6)]
}

fn key() -> impl Strategy<Value = Key> {
    let parts = proptest::collection::vec(component(), 1..5);
    let some = (parts, any::<bool>()).prop_map(|(parts, is_dir)| {
        let mut key = parts.join(&b'/');
        key.extend(is_dir.then_some(b'/'));
        Some(key)
    });
    prop_oneof![
        40 => some,
        1 => Just(None),
        1 => Just(Some(vec![b'x'; MAX_NAME + 1])),
        1 => Just(Some(b"d/".repeat(MAX_PARTS + 1))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_partition_of_the_keys_gives_the_findings_of_one_task(
        keys in proptest::collection::vec((key(), 0..4_usize, 0..4_usize), 0..60),
        tasks in 1..5_usize,
        memory in prop_oneof![Just(1_usize), Just(2000), Just(1 << 28)],
        shape in prop_oneof![Just(Shape::Key), Just(Shape::Path), Just(Shape::File)],
    ) {
        let of = PairSettings { shape, ..PairSettings::default() };
        let profiles = ["windows", "macos", "strict"];
        let all: Vec<Key> = keys.iter().map(|(key, ..)| key.clone()).collect();
        let (whole, counted) = check(settings(&profiles, 1 << 28), &pairs(of, &[column(0, &all)]));

        // The keys of each mapper, each in a layout of its own and in two batches.
        let mapped: Vec<RecordBatch> = (0..4)
            .flat_map(|mapper| {
                let its = keys.iter().filter(|(_, of, _)| *of == mapper);
                let its: Vec<Key> = its.map(|(key, ..)| key.clone()).collect();
                let (first, second) = its.split_at(its.len() / 2);
                pairs(of, &[column(mapper, first), column(mapper, second)])
            })
            .collect();
        let checked: Vec<_> =
            shuffle(&mapped, tasks).into_iter().map(|pairs| check(settings(&profiles, memory), &[pairs])).collect();
        let found: Vec<RecordBatch> = checked.iter().flat_map(|(found, _)| found.clone()).collect();
        prop_assert_eq!(rows::sorted(&found), rows::sorted(&whole));
        let sum = |of: fn(&TaskSummary) -> u64| checked.iter().map(|(_, summary)| of(summary)).sum::<u64>();
        prop_assert_eq!(sum(|s| s.names), counted.names);
        prop_assert_eq!(sum(|s| s.directories), counted.directories);
        prop_assert_eq!(sum(|s| s.collisions), counted.collisions);
        prop_assert_eq!(sum(|s| s.faults), counted.faults);
        let faulty = |key: &Key| key.as_ref().is_none_or(|key| key.len() > MAX_NAME || key.starts_with(b"d/d/d/d/d/d/"));
        prop_assert_eq!(counted.faults, all.iter().filter(|key| faulty(key)).count() as u64);
    }
}

type Row = (Vec<u8>, &'static str, Option<Vec<u8>>, Option<i64>, Option<String>);
type Rows = Vec<Row>;

fn candidate_rows(batches: &[RecordBatch]) -> Rows {
    let mut rows = Rows::new();
    for batch in batches {
        let (parents, names) = (batch.column(0).as_binary::<i32>(), batch.column(2).as_binary::<i32>());
        let [kinds, entries] = [1, 4].map(|at| batch.column(at).as_string::<i32>());
        let numbers = batch.column(3).as_primitive::<Int64Type>();
        for at in 0..batch.num_rows() {
            let kinds_known = ["candidate", "known", "directory"];
            let kind = kinds_known.into_iter().find(|kind| *kind == kinds.value(at)).unwrap();
            let name = names.is_valid(at).then(|| names.value(at).to_vec());
            rows.push((
                parents.value(at).to_vec(),
                kind,
                name,
                numbers.is_valid(at).then(|| numbers.value(at)),
                entries.is_valid(at).then(|| entries.value(at).to_owned()),
            ));
        }
    }
    rows
}

fn candidate_batch(rows: &[&Row]) -> RecordBatch {
    let (mut parents, mut kinds, mut entries) =
        (BinaryBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut names, mut numbers) = (BinaryBuilder::new(), Int64Builder::new());
    for (parent, kind, name, number, entry) in rows {
        parents.append_value(parent);
        kinds.append_value(kind);
        names.append_option(name.as_ref());
        numbers.append_option(*number);
        entries.append_option(entry.as_ref());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(parents.finish()),
        Arc::new(kinds.finish()),
        Arc::new(names.finish()),
        Arc::new(numbers.finish()),
        Arc::new(entries.finish()),
    ];
    RecordBatch::try_new(schema::candidates(), columns).unwrap()
}

/// What an engine does with the pairs of cut directories: several tasks for each directory, and rounds until nothing is wanted. Returns
/// the number of rounds too.
fn check_cut(
    settings: &CheckSettings,
    pieces: &[RecordBatch],
    tasks: usize,
) -> (Vec<RecordBatch>, [u64; 2], usize) {
    let mut numbered = Vec::new();
    for piece in pieces {
        number_names(piece, settings, &mut |batch| numbered.push(batch)).unwrap();
    }
    let of_task = |batch: &RecordBatch, task: usize| {
        let numbers = batch.column(2).as_primitive::<Int64Type>();
        let own =
            (0..batch.num_rows()).filter(|&at| numbers.value(at).rem_euclid(tasks as i64) == task as i64);
        let own: Vec<RecordBatch> = own.map(|at| batch.slice(at, 1)).collect();
        own
    };
    let (mut candidates, mut names) = (Vec::new(), 0);
    for task in 0..tasks {
        let mut finder = CandidateFinder::new(settings.clone());
        for batch in numbered.iter().flat_map(|batch| of_task(batch, task)) {
            finder.add(&batch).unwrap();
        }
        names += finder.finish(&mut |batch| candidates.push(batch)).unwrap().names;
    }
    let mut rows = candidate_rows(&candidates);
    for round in 0.. {
        let checkers = || {
            (0..tasks).map(|task| {
                let own = rows.iter().filter(|row| stable_hash(&row.0) % tasks as u64 == task as u64);
                let mut checker = CandidateChecker::new(settings.clone());
                checker.add(&candidate_batch(&own.collect::<Vec<_>>())).unwrap();
                checker
            })
        };
        let mut wanted = Vec::new();
        checkers().for_each(|checker| checker.wanted(&mut |batch| wanted.push(batch)).unwrap());
        let wanted = candidate_rows(&wanted);
        if wanted.is_empty() {
            let mut readers: Vec<_> = checkers().map(|checker| checker.finish().unwrap()).collect();
            let found = readers.iter_mut().flat_map(|reader| reader.map(Result::unwrap)).collect();
            let directories = readers.iter().map(|reader| reader.summary().directories).sum();
            return (found, [names, directories], round);
        }
        assert!(
            checkers().any(|checker| checker.finish().unwrap().any(|batch| batch.is_err())),
            "incomplete"
        );
        for batch in &numbered {
            let (parents, names) = (batch.column(0).as_binary::<i32>(), batch.column(1).as_binary::<i32>());
            let numbers = batch.column(2).as_primitive::<Int64Type>();
            for at in 0..batch.num_rows() {
                let parent = parents.value(at);
                if wanted.iter().any(|row| row.0 == parent && row.3 == Some(numbers.value(at))) {
                    rows.push((parent.to_vec(), "occupant", Some(names.value(at).to_vec()), None, None));
                }
            }
        }
        rows.extend(wanted);
    }
    unreachable!("each round makes numbers known")
}

/// The pairs of the directories that are cut and those of the others.
fn by_size(pairs: &[RecordBatch], split: usize) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
    let parent = |batch: &RecordBatch, at: usize| {
        let parents = batch.column(0).as_binary::<i32>();
        parents.is_valid(at).then(|| parents.value(at).to_vec())
    };
    let rows = || pairs.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| batch.slice(at, 1)));
    let mut counts = std::collections::HashMap::new();
    rows().for_each(|row| *counts.entry(parent(&row, 0)).or_insert(0_usize) += 1);
    rows().partition(|row| parent(row, 0).is_some_and(|of| counts[&Some(of)] > split))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn cut_directories_have_the_findings_of_whole_ones(
        names in proptest::collection::vec((component(), 0..3_usize), 0..50),
        split in 0..12_usize,
        tasks in 1..4_usize,
        memory in prop_oneof![Just(1_usize), Just(1 << 28)],
        profiles in prop_oneof![Just(vec!["windows", "macos", "strict"]), Just(vec!["utf8"]), Just(vec!["git", "s3"])],
        prefix in prop_oneof![Just(0_usize), Just(245), Just(1015)],
    ) {
        let mut keys: Vec<Key> =
            names.iter().map(|(name, dir)| Some([[&b""[..], b"d/", b"e/f/"][*dir], &name[..]].concat())).collect();
        // Directories, of which some have the name of a file.
        keys.extend(names.iter().step_by(7).map(|(name, _)| Some([b"d/", &name[..], b"/x"].concat())));
        let settings = |memory| CheckSettings { prefix: vec![b'p'; prefix], ..settings(&profiles, memory) };
        let pairs = pairs(PairSettings::default(), &[column(0, &keys)]);
        let (whole, counted) = check(settings(1 << 28), &pairs);
        let (cut, others) = by_size(&pairs, split);
        let (mut found, [names, directories], _) = check_cut(&settings(memory), &cut, tasks);
        let (of_others, counted_others) = check(settings(memory), &others);
        found.extend(of_others);
        prop_assert_eq!(rows::sorted(&found), rows::sorted(&whole));
        prop_assert_eq!(names + counted_others.names, counted.names);
        prop_assert_eq!(directories + counted_others.directories, counted.directories);
    }
}

#[test]
fn a_file_and_a_directory_of_one_name_are_found_in_whole_and_in_cut_directories() {
    let keys = ["d/something", "d/something/page.html", "d/other", "d/folder/", "d/folder/x"];
    let keys: Vec<Key> = keys.iter().map(|key| Some(key.as_bytes().to_vec())).collect();
    let settings = settings(&["windows"], 1 << 20);
    let of = |shape| pairs(PairSettings { shape, ..PairSettings::default() }, &[column(0, &keys)]);
    for (shape, count) in [(Shape::Key, 1), (Shape::File, 1), (Shape::Path, 0)] {
        let whole = rows::sorted(&check(settings.clone(), &of(shape)).0);
        assert_eq!(whole.len(), count, "{shape:?}: {whole:?}");
        assert!(whole.iter().all(|row| row[1] == "\"something\"" && row[4] == "collision-kind"), "{whole:?}");
        for tasks in [1, 3] {
            assert_eq!(rows::sorted(&check_cut(&settings, &of(shape), tasks).0), whole, "{shape:?}");
        }
    }
    // A table that has no kinds says nothing of them.
    let without: Vec<RecordBatch> =
        of(Shape::Key).iter().map(|batch| batch.project(&[0, 1, 2]).unwrap()).collect();
    assert_eq!(rows::sorted(&check(settings, &without).0), rows::sorted(&[]));
}

#[test]
fn suggested_names_that_are_in_use_elsewhere_in_a_cut_directory_are_asked_for_in_rounds() {
    // The numbers that are looked up double in each round.
    let names =
        (2..40).map(|at| format!("d/a_b_{at}")).chain(["d/a:b".into(), "d/a_b".into(), "d/A_B_40".into()]);
    let keys: Vec<Key> = names.map(|name| Some(name.into_bytes())).collect();
    let (settings, pairs) =
        (settings(&["windows"], 1 << 20), pairs(PairSettings::default(), &[column(0, &keys)]));
    let (found, [names, _], rounds) = check_cut(&settings, &pairs, 3);
    assert_eq!((names, rows::sorted(&found)), (42, rows::sorted(&check(settings, &pairs).0)));
    assert!(rows::sorted(&found)[0].contains(&"a_b_41".to_owned()), "{found:?}");
    assert!((3..7).contains(&rounds), "{rounds}");
}

#[test]
fn keys_that_cannot_be_checked_are_rows_that_say_so() {
    let deep = b"d/".repeat(MAX_PARTS + 1);
    let long = vec![b'x'; MAX_NAME + 1];
    let keys: [Key; 4] = [None, Some(long), Some(deep.clone()), Some(b"a%2".to_vec())];
    let of = PairSettings { shape: Shape::Key, decoding: Decoding::Percent };
    let (found, summary) = check(settings(&["utf8"], 1 << 20), &pairs(of, &[column(0, &keys)]));
    assert_eq!((summary.faults, summary.names), (4, 0));
    let found: Vec<(String, String, String)> = rows::sorted(&found)
        .into_iter()
        .map(|row| (row[1].clone(), row[3].clone(), row[9].clone()))
        .collect();
    let expected = [
        (format!("\"{}\"", "d/".repeat(MAX_PARTS + 1)), format!("the key has {TOO_DEEP}")),
        ("\"a%2\"".to_owned(), "the key is not encoded as the setting says".to_owned()),
        (
            format!("\"{}\"", "x".repeat(MAX_NAME)),
            "the key has more than 65536 bytes; its beginning is shown".to_owned(),
        ),
        ("null".to_owned(), "the key is null".to_owned()),
    ];
    let mut expected = expected.map(|(name, message)| (name, "fault".to_owned(), message));
    expected.sort();
    let mut found = found;
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_deepest_key_whose_parents_are_very_long_does_not_fill_a_batch() {
    // 15 parents of up to 61 KB: 0.5 MB for each key.
    const KEYS: u32 = 256;
    const PARTS: usize = MAX_EXPANDED / MAX_NAME;
    let part = vec![b'p'; MAX_NAME / PARTS - 1];
    let key = vec![part; PARTS].join(&b'/');
    let keys: Vec<Key> =
        (0..KEYS).map(|first| Some([format!("{first:03}").as_bytes(), &key[3..]].concat())).collect();
    let batches = pairs(PairSettings::default(), &[column(0, &keys)]);
    assert!(batches.len() > 8, "{}", batches.len());
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), KEYS as usize * PARTS);
}

#[test]
fn columns_of_any_text_are_read_and_others_are_refused() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a/b?"), None]));
    let found = check(settings(&["windows"], 1 << 20), &pairs(PairSettings::default(), &[text])).0;
    assert_eq!(rows::sorted(&found).len(), 2);
    let nothing: ArrayRef = Arc::new(NullArray::new(3));
    assert_eq!(check(settings(&["utf8"], 1), &pairs(PairSettings::default(), &[nothing])).1.faults, 3);
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let refused = PairSplitter::new(PairSettings::default()).split(&numbers, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("cannot read names from column `key`"), "{refused}");
    let batch = RecordBatch::try_from_iter([("name", numbers)]).unwrap();
    let refused = DirectoryChecker::new(settings(&["utf8"], 1)).add(&batch).unwrap_err();
    assert!(refused.to_string().contains("no column `parent`, but: name"), "{refused}");
}

#[test]
fn the_summary_says_what_was_checked_with_what() {
    let (_, summary) = check(
        settings(&["windows"], 1),
        &pairs(PairSettings::default(), &[column(0, &[Some(b"a/b".to_vec())])]),
    );
    let row = &rows::sorted(&[summary.to_batch("task 7")])[0];
    assert_eq!(row[..5], ["task 7", "2", "2", "0", "0"]);
    assert_eq!(TaskSummary::read(&summary.to_batch("")).unwrap(), [summary]);
    assert_eq!(
        (row[5].len(), row[7].as_str(), row[8].as_str()),
        (16, env!("CARGO_PKG_VERSION"), "[windows]")
    );
}
