//! A plan as a whole in memory, which the program never needs.

use namegate_fix::plan::{PlanHeader, PlanLine, PlanParser, Rename, Retarget, Skipped};
use namegate_fix::stored_plan::{StoredPlan, StoredPlanError};

/// The lines of a plan in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub header: PlanHeader,
    pub renames: Vec<Rename>,
    pub retargets: Vec<Retarget>,
    pub skipped: Vec<Skipped>,
}

impl Plan {
    /// Parses a plan that `fix apply` accepts.
    pub fn parse(text: &[u8]) -> Result<Self, StoredPlanError> {
        let (mut parser, mut plan) = (PlanParser::default(), Self::default());
        for line in text.split(|&b| b == b'\n') {
            match parser.parse_line(line) {
                Some(PlanLine::Header(header)) => plan.header = header,
                Some(PlanLine::Rename(rename)) => plan.renames.push(rename),
                Some(PlanLine::Retarget(retarget)) => plan.retargets.push(retarget),
                Some(PlanLine::Skipped(skipped)) => plan.skipped.push(skipped),
                // The parser keeps the error.
                None => {}
            }
        }
        parser.finish().map_err(StoredPlanError::Lines)?;
        StoredPlan::read(text)?;
        Ok(plan)
    }
}
