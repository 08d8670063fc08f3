//! The cost of counting a request in the server of a mount: `cargo bench --bench metrics`. The shortest
//! round trip to a mount takes about 5 µs.

use std::hint::black_box;

use criterion::Criterion;
use namegate_telemetry::metrics::{Metrics, Op};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let metrics = Metrics::default();
    criterion.bench_function("counting a request", |bencher| {
        bencher.iter(|| drop(black_box(metrics.begin(black_box(Op::Lookup)))));
    });
    criterion.final_summary();
}
