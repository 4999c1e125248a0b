//! Reports results: a line for each folder, and a summary.

use super::compare::Distance;
use serde_json::json;
use std::path::Path;

/// The result of one folder.
pub enum Outcome {
    /// Every result is within its tolerance.
    Ok(Distance),
    /// A result is not.
    Differs(Distance),
    /// The model needs something that onnxc does not support.
    Unsupported(String),
    /// The model could not be compiled, built or run, or there is nothing to compare with.
    Failed(String),
}

impl Outcome {
    /// The outcome of results with these errors.
    pub fn of(distance: Distance) -> Outcome {
        if distance.wrong.is_some() { Outcome::Differs(distance) } else { Outcome::Ok(distance) }
    }

    /// The name of the outcome.
    pub fn status(&self) -> &'static str {
        match self {
            Outcome::Ok(_) => "ok",
            Outcome::Differs(_) => "differs",
            Outcome::Unsupported(_) => "unsupported",
            Outcome::Failed(_) => "failed",
        }
    }

    /// Returns whether this outcome is reported rather than `other`.
    pub fn is_worse_than(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Ok(a), Outcome::Ok(b)) => a.max_abs > b.max_abs,
            (Outcome::Ok(_), _) => false,
            _ => true,
        }
    }

    fn distance(&self) -> Option<&Distance> {
        match self {
            Outcome::Ok(distance) | Outcome::Differs(distance) => Some(distance),
            Outcome::Unsupported(_) | Outcome::Failed(_) => None,
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Ok(_) => None,
            Outcome::Differs(distance) => distance.wrong.as_deref(),
            Outcome::Unsupported(reason) | Outcome::Failed(reason) => Some(reason),
        }
    }
}

/// Prints the line of one folder.
pub fn line(path: &Path, outcome: &Outcome, as_json: bool) {
    let distance = outcome.distance();
    if as_json {
        // JSON has no infinity.
        let number = |of: fn(&Distance) -> f64| distance.map(of).filter(|x| x.is_finite());
        let line = json!({
            "path": path.display().to_string(),
            "status": outcome.status(),
            "max_abs": number(|d| d.max_abs),
            "max_rel": number(|d| d.max_rel),
            "max_expected": number(|d| d.max_expected),
            "reason": outcome.reason(),
        });
        outln!("{line}");
        return;
    }
    let worst = match distance {
        Some(d) if d.max_abs > 0.0 => format!("  (abs {:.1e}, rel {:.1e})", d.max_abs, d.max_rel),
        _ => String::new(),
    };
    outln!("{:<11} {}{worst}", outcome.status(), path.display());
    for line in outcome.reason().into_iter().flat_map(str::lines) {
        outln!("    {line}");
    }
}

/// Prints the number of each outcome, and returns whether all are good.
pub fn summary(outcomes: &[Outcome], as_json: bool) -> bool {
    let count = |status| outcomes.iter().filter(|outcome| outcome.status() == status).count();
    let (ok, differs) = (count("ok"), count("differs"));
    let (unsupported, failed) = (count("unsupported"), count("failed"));
    if !as_json {
        outln!("\n{ok} ok, {differs} differ, {unsupported} unsupported, {failed} failed");
    }
    ok == outcomes.len()
}
