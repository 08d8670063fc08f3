//! The cost of checking a name. `cargo bench --bench names` (or `scripts/bench`) ends with a table in ns per name, and ratios
//! to `std::str::from_utf8` on each name, measured in the same run.

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use namegate_core::name::arena::Arena;
use namegate_core::name::normalize::{Form, is_in_form};
use namegate_core::policy::{Policy, profile};

mod corpus;

use corpus::Kind;

/// Too many for the first-level cache, few enough for the second.
const NAMES: usize = 10_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let corpora = [
        ("mix", corpus::mix(NAMES)),
        ("ascii", corpus::ascii_20(NAMES)),
        (
            "non-ascii",
            [Kind::Latin, Kind::Cyrillic, Kind::Cjk, Kind::Emoji]
                .map(|k| corpus::only(k, NAMES / 4))
                .concat(),
        ),
    ];
    let profile = |name| profile::by_name(name).expect("a profile of this name exists");
    let policies = [
        ("utf8", Policy::from_profiles(&[profile("utf8")])),
        ("strict", Policy::from_profiles(&[profile("strict")])),
        ("windows,macos", Policy::from_profiles(&[profile("windows"), profile("macos")])),
        ("portable", Policy::from_profiles(&[profile("portable")])),
    ];
    for (corpus, names) in &corpora {
        let mut group = criterion.benchmark_group(*corpus);
        group.throughput(Throughput::Elements(names.len() as u64));
        each(&mut group, "std::str::from_utf8", names, |name| std::str::from_utf8(name).is_ok());
        let mut arena = Arena::new();
        names.iter().for_each(|name| {
            arena.push(name).expect("the corpus holds no NUL");
        });
        group.bench_function("arena", |b| b.iter(|| black_box(&arena).ill_formed().count()));
        for (policy_name, policy) in &policies {
            each(&mut group, &format!("verdict {policy_name}"), names, |name| {
                matches!(policy.verdict(name), namegate_core::policy::Verdict::Accept(_))
            });
        }
        let texts: Vec<&str> = names.iter().filter_map(|name| std::str::from_utf8(name).ok()).collect();
        group.throughput(Throughput::Elements(texts.len() as u64));
        group.bench_function("is NFC", |b| {
            b.iter(|| texts.iter().filter(|text| is_in_form(black_box(text), Form::Nfc)).count());
        });
        group.finish();
    }
    criterion.final_summary();
    table(&corpora.map(|(name, _)| name));
}

fn each(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: &str,
    names: &[Vec<u8>],
    check: impl Fn(&[u8]) -> bool,
) {
    group.bench_function(id, |b| b.iter(|| names.iter().filter(|name| check(black_box(name))).count()));
}

/// Prints the results of the last run; rows that a filter left out show the run before it.
fn table(corpora: &[&str]) {
    let Ok(dir) = std::env::var("CARGO_TARGET_DIR").or_else(|_| {
        let built: std::path::PathBuf = std::env::current_exe()?;
        let target = built.ancestors().nth(3).ok_or(std::io::Error::other("not in a target directory"))?;
        Ok::<_, std::io::Error>(target.to_string_lossy().into_owned())
    }) else {
        return;
    };
    for corpus in corpora {
        let Ok(entries) = std::fs::read_dir(format!("{dir}/criterion/{corpus}")) else { continue };
        let mut rows: Vec<(String, f64)> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path().join("new");
                let read = |file: &str| -> Option<serde_json::Value> {
                    serde_json::from_slice(&std::fs::read(path.join(file)).ok()?).ok()
                };
                let id = read("benchmark.json")?;
                let median = read("estimates.json")?["median"]["point_estimate"].as_f64()?;
                let names = id["throughput"]["Elements"].as_f64()?;
                Some((id["function_id"].as_str()?.to_owned(), median / names))
            })
            .collect();
        rows.sort_by(|a, b| a.1.total_cmp(&b.1));
        let std = rows.iter().find(|(id, _)| id == "std::str::from_utf8").map_or(f64::NAN, |(_, ns)| *ns);
        println!("\n{corpus:20} ns/name   × std");
        for (id, ns) in rows {
            println!("  {id:20} {ns:6.1}  {:6.2}", ns / std);
        }
    }
}
