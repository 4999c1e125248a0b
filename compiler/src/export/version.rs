//! Selection of the oldest operator sets that have everything that is written.

use crate::{
    domain,
    import::version::{Need, OLDEST},
    ir::{Domain, Info},
};
use std::collections::{BTreeMap, HashSet};

/// Requirements of the nodes written so far.
#[derive(Default)]
pub struct Needs {
    versions: BTreeMap<Domain, i64>,
    nodes: HashSet<Need>,
}

impl Needs {
    /// Adds the needs of a node.
    pub fn add(&mut self, need: Need) {
        self.at_least(need.domain, 1);
        self.nodes.insert(need);
    }

    /// Requires a version of an operator set.
    pub fn at_least(&mut self, domain: Domain, version: i64) {
        let needed = self.versions.entry(domain).or_insert(version);
        *needed = (*needed).max(version);
    }

    /// Returns the operator sets to import. A graph that was not read from a file imports the
    /// newest.
    pub fn sets(&self, info: &Info) -> Vec<(String, i64)> {
        let mut sets = self.versions.clone();
        for (name, version) in &info.opsets {
            if let Some(needed) = Domain::from_name(name).and_then(|domain| sets.get_mut(&domain)) {
                *needed = (*needed).max(*version);
            }
        }
        if info.opsets.is_empty() {
            sets.iter_mut().for_each(|(domain, version)| *version = domain.newest());
        }
        self.raise(&mut sets);
        // A model must import an operator set, even without nodes.
        if sets.is_empty() {
            let main = info.opsets.iter().find(|(name, _)| domain::canonical(name).is_empty());
            let version = main.map_or(Domain::Onnx.newest(), |(_, version)| *version);
            sets.insert(Domain::Onnx, version.max(OLDEST));
        }
        let name = |domain: Domain| match domain {
            Domain::Onnx => String::new(),
            other => other.to_string(),
        };
        sets.into_iter().map(|(domain, version)| (name(domain), version)).collect()
    }

    /// Raises versions until they allow all nodes. A version may forbid what an older one allows.
    fn raise(&self, sets: &mut BTreeMap<Domain, i64>) {
        loop {
            let mut is_stable = true;
            for need in &self.nodes {
                let Some(version) = sets.get_mut(&need.domain) else { continue };
                let needed = need.oldest_from(*version);
                is_stable &= needed == *version;
                *version = needed;
            }
            if is_stable {
                return;
            }
        }
    }
}

/// Returns the oldest version of the file format that supports these operator sets, and
/// initializers that are not inputs.
pub fn file_format(sets: &[(String, i64)]) -> i64 {
    // The format version of each version of the main operator set, as in ONNX's releases.
    const FORMATS: &[(i64, i64)] = &[
        (28, 14),
        (25, 13),
        (24, 12),
        (23, 11),
        (21, 10),
        (19, 9),
        (15, 8),
        (12, 7),
        (11, 6),
        (10, 5),
    ];
    let main = sets.iter().find(|(name, _)| name.is_empty()).map_or(1, |(_, version)| *version);
    FORMATS.iter().find(|(set, _)| main >= *set).map_or(4, |(_, format)| *format)
}
