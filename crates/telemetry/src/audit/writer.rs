//! The thread that writes records.

use std::time::Instant;

use super::audit_log::DroppedLine;
use super::bounded::BoundedRecord;
use super::queue::{AuditQueue, DropCounts, QueueItem, QuotaKey};
use super::repeats::{RepeatCounter, Repeats};
use super::{AuditLog, AuditOutcome, AuditRecord, AuditSettings, is_heard, log_with_fields};
use crate::log;
use crate::metrics::DropReason;

pub(super) struct AuditWriter<'q> {
    tasks: &'q AuditQueue,
    settings: AuditSettings,
    counter: RepeatCounter,
}

impl<'q> AuditWriter<'q> {
    pub(super) fn new(tasks: &'q AuditQueue, settings: AuditSettings) -> Self {
        Self { tasks, settings, counter: RepeatCounter::default() }
    }

    /// Writes until the queue is closed.
    pub(super) fn run(mut self) {
        loop {
            while let Some(repeats) = self.counter.take_due(Instant::now()) {
                self.write_repeats(&repeats);
                self.counter.begin(repeats.who, repeats.record, Instant::now());
            }
            match self.tasks.next(self.counter.next_due()) {
                QueueItem::Write(None, record) => {
                    self.write(&record, |_| true);
                    self.remember(&record);
                }
                QueueItem::Write(Some(who), record) => self.write_or_count(who, *record),
                QueueItem::RepeatsDue => {}
                QueueItem::ReportDrops(dropped) => self.report_drops(dropped),
                QueueItem::Reopen => {
                    // A file has the numbers of its own records, and the next one begins with a record.
                    self.write_all_repeats();
                    self.settings.audit_log.iter_mut().for_each(AuditLog::reopen);
                }
                QueueItem::End => break,
            }
        }
        self.write_all_repeats();
        self.settings.audit_log.iter().for_each(AuditLog::finish);
    }

    fn write_all_repeats(&mut self) {
        while let Some(repeats) = self.counter.take_any() {
            self.write_repeats(&repeats);
        }
    }

    fn remember(&self, record: &AuditRecord) {
        if record.outcome != AuditOutcome::Noticed {
            self.settings.recent.add(record);
        }
    }

    fn write_or_count(&mut self, who: QuotaKey, record: AuditRecord) {
        let tasks = self.tasks;
        if self.counter.count(&record) {
            self.remember(&record);
        // A flood must be cheap: a record that cannot be written is not formatted.
        } else if tasks.may_fit(who) && self.write(&record, |bytes| tasks.reserve_bytes(who, bytes)) {
            self.remember(&record);
            if let Some(oldest) = self.counter.begin(who, record, Instant::now()) {
                self.write_repeats(&oldest);
            }
        }
    }

    /// Writes repeats in any case; they count as bytes of the user.
    fn write_repeats(&mut self, repeats: &Repeats) {
        let tasks = self.tasks;
        self.write(&repeats.record, |bytes| {
            tasks.spend(repeats.who, bytes);
            true
        });
    }

    /// Writes a record to the log and to the audit log, unless its size is not allowed; reports whether it is.
    fn write(&mut self, record: &AuditRecord, is_allowed: impl FnOnce(usize) -> bool) -> bool {
        let AuditSettings { is_logged, audit_log, metrics, .. } = &mut self.settings;
        let bounded = BoundedRecord::new(record);
        let in_log = if *is_logged && is_heard() { bounded.log_bytes(log::has_fields()) } else { 0 };
        let in_audit_log = audit_log.as_ref().map_or(0, |_| bounded.line_bytes());
        if !is_allowed(in_log + in_audit_log) {
            return false;
        }
        if *is_logged {
            log_with_fields(&bounded);
        }
        match audit_log.as_mut().is_none_or(|audit_log| audit_log.put(&bounded.line, record.count)) {
            true => metrics.recorded(record.count),
            false => metrics.dropped(DropReason::File, record.count),
        }
        true
    }

    fn report_drops(&mut self, dropped: Vec<(QuotaKey, DropCounts)>) {
        let AuditSettings { per_second, bytes_per_second, audit_log, .. } = &mut self.settings;
        let why_rate = format!("more than {per_second} a second");
        let why_bytes = format!("more than {bytes_per_second} bytes a second");
        for (uid, DropCounts { rate, bytes, queue, buffer }) in dropped {
            for (count, reason, why) in [
                (rate, "rate", why_rate.as_str()),
                (bytes, "bytes", &why_bytes),
                (queue, "queue", "the writer is behind"),
                (buffer, "buffer", "the kernel's buffer was full"),
            ] {
                if count > 0 {
                    // These lines count as bytes of the user, too.
                    self.tasks.spend(uid, report_dropped(count, reason, why, uid, audit_log.as_mut()));
                }
            }
        }
    }
}

/// Writes how many records were dropped; returns about how many bytes that took.
fn report_dropped(
    count: u64,
    reason: &'static str,
    why: &str,
    uid: Option<u32>,
    audit_log: Option<&mut AuditLog>,
) -> usize {
    /// Length of the log line around the message, and of the line in the audit log.
    const AROUND: usize = 256;
    let whose = match uid {
        Some(uid) => format!("uid {uid}"),
        None if reason == "buffer" => "anybody".into(),
        None => "others".into(),
    };
    let message = format!("{count} more were refused or let through, and not recorded, of {whose}: {why}");
    ::log::warn!(dropped = count, reason = reason, whose = whose.as_str(); "{message}");
    if let Some(audit_log) = audit_log {
        // If this line cannot be written, its records count as missing.
        audit_log.put(&DroppedLine::new(count, reason, uid), count);
    }
    message.len() + AROUND
}
