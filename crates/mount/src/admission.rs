//! Checks new names and targets at the gate, and records those that break the policy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use namegate_core::gate::{Admitted, Gate, Intent, Mode};
use namegate_core::name::Span;
use namegate_telemetry::audit::{AuditOutcome, AuditRecord, Requester};
use namegate_telemetry::metrics::Op;
use nix::errno::Errno;

use super::failure::RequestFailure;
use super::server::{ConfiguredServer, Result};
use crate::passthrough::{Caller, NodeId};

/// An attempt to create a name.
struct NameAttempt<'a> {
    operation: Op,
    caller: &'a Caller,
    parent: NodeId,
    name: &'a OsStr,
    /// The target of a symbolic link with that name, if the target is checked.
    target: Option<&'a OsStr>,
}

impl ConfiguredServer<'_> {
    /// Checks the name of an entry that `operation` creates in `parent`.
    pub(super) fn admit_new<'n>(
        &self,
        operation: Op,
        caller: &Caller,
        parent: NodeId,
        name: &'n OsStr,
    ) -> Result<Admitted<'n>> {
        let attempt = NameAttempt { operation, caller, parent, name, target: None };
        self.admit(&self.config.serve.gate, &attempt, name, 0)
    }

    /// Checks `part`, which begins at byte `at` of the name or target of `attempt`, at `gate`.
    fn admit<'n>(
        &self,
        gate: &Gate,
        attempt: &NameAttempt<'_>,
        part: &'n OsStr,
        at: usize,
    ) -> Result<Admitted<'n>> {
        let admitted = gate.admit(Intent::Create, part);
        let (outcome, rule, span) = match &admitted {
            Err(refusal) => (AuditOutcome::Refused, refusal.rule(), refusal.span()),
            Ok(stored) => {
                let noted = stored.noted().map(|violation| (violation.rule, violation.span));
                if gate.mode() == Mode::Encoding
                    && let Some((rule, _)) = noted
                {
                    // Only counted: the client gets what it wants, and its names would displace refusals in the log.
                    self.metrics.iter().for_each(|metrics| metrics.encoded(attempt.operation, Some(rule)));
                    return Ok(admitted?);
                }
                let outcome = if noted.is_some() { AuditOutcome::LetThrough } else { AuditOutcome::Noticed };
                let noticed = || attempt.target.is_none().then(|| stored.damage()).flatten();
                let Some((rule, span)) = noted.or_else(noticed) else { return Ok(admitted?) };
                (outcome, Some(rule), span)
            }
        };
        let NameAttempt { operation, caller, parent, name, target } = *attempt;
        if let Some(metrics) = &self.metrics {
            match &outcome {
                AuditOutcome::LetThrough => metrics.let_through(operation, rule),
                AuditOutcome::Noticed => {}
                AuditOutcome::Refused | AuditOutcome::Seen => metrics.refused(operation, rule),
            }
        }
        if let Some(audit) = &self.audit {
            // A new file may have another owner in the source.
            let requester = match self.tree.has_idmap() {
                true => Caller::of_request((u32::MAX, u32::MAX), caller.pid, None),
                false => *caller,
            };
            audit.record(Some(requester.uid), || AuditRecord {
                count: 1,
                time: SystemTime::now(),
                outcome,
                operation: operation.name(),
                name: name.into(),
                target: target.map(OsStr::to_os_string),
                parent: self.tree.path(parent).ok(),
                rule,
                span: Span::new(at + span.start, at + span.end),
                requester: Requester::new(requester.uid, requester.gid, requester.pid),
            });
        }
        admitted.map_err(|refusal| RequestFailure::refused(refusal, caller.pid))
    }

    /// Checks that an entry may be created under the name by which another entry is stored.
    pub(super) fn check_stored(&self, stored: &Admitted<'_>) -> nix::Result<()> {
        let gate = &self.config.serve.gate;
        let shown = gate.show(stored.as_os_str()).ok_or(Errno::ENOENT)?;
        match gate.admit(Intent::Create, &shown.name) {
            Ok(admitted) if admitted.as_os_str() == stored.as_os_str() => Ok(()),
            // The new entry would be stored under another name.
            Ok(_) => Err(Errno::EINVAL),
            Err(refusal) => Err(self.errno(refusal.into())),
        }
    }

    /// Checks the components of a link target like new names, if the configuration asks for it. The target itself is content: it is never
    /// changed, and not encoded.
    pub(super) fn check_target(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<()> {
        if !self.config.serve.settings.check_targets() {
            return Ok(());
        }
        let attempt = NameAttempt { operation: Op::Symlink, caller, parent, name, target: Some(target) };
        let gate = self.config.serve.gate.clone();
        let gate = if gate.mode() == Mode::Encoding { gate.with_mode(Mode::Enforcing) } else { gate };
        let mut at = 0;
        for part in target.as_bytes().split(|&byte| byte == b'/') {
            if !matches!(part, b"" | b"." | b"..") {
                let admitted = self.admit(&gate, &attempt, OsStr::from_bytes(part), at)?;
                if admitted.noted().is_some() {
                    // One record is enough for one link.
                    break;
                }
            }
            at += part.len() + 1;
        }
        Ok(())
    }
}
