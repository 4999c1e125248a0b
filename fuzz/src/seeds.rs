//! The models that mutants are made of: samples of each version of each operator, and the models of
//! the tests.

use crate::{
    choices::Choices,
    facts::{Version, versions},
    sample::{Sample, Types, samples},
};
use onnxc_proto::ModelProto;
use std::sync::OnceLock;

const MODELS: [&str; 6] = [
    include_str!("../../tests/models/cache.onnxtxt"),
    include_str!("../../tests/models/defaults.onnxtxt"),
    include_str!("../../tests/models/free.onnxtxt"),
    include_str!("../../tests/models/mlp.onnxtxt"),
    include_str!("../../tests/models/network.onnxtxt"),
    include_str!("../../tests/models/network_int8.onnxtxt"),
];

/// The types of a constraint in order of preference.
const USUAL: [&str; 8] =
    ["float", "int64", "bool", "uint8", "int8", "string", "seq(float)", "optional(float)"];

/// Versions of operators that have samples, the samples, and the models of the tests.
struct Sources {
    versions: Vec<Version>,
    samples: Vec<Sample>,
    models: Vec<ModelProto>,
}

fn sources() -> &'static Sources {
    static SOURCES: OnceLock<Sources> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let samples = samples();
        let is_sampled =
            |version: &Version| !version.is_removal && !Sample::of(&samples, version).is_empty();
        let versions = versions().into_iter().filter(is_sampled).collect();
        Sources {
            versions,
            samples,
            models: MODELS.iter().filter_map(|text| decode(text)).collect(),
        }
    })
}

fn decode(text: &str) -> Option<ModelProto> {
    onnxc::import::decode(text.as_bytes().to_vec().into()).ok()
}

/// Returns the usual type of each constraint.
fn usual_types(version: &Version) -> Types<'static> {
    let one = |(name, types): &(&'static str, Vec<&'static str>)| {
        let usual = USUAL.iter().find(|ty| types.contains(ty));
        (*name, *usual.unwrap_or(&types[0]))
    };
    version.constraints.iter().map(one).collect()
}

/// Chooses a model: a version of an operator, a sample and types, or a model of the tests.
pub fn choose(choices: &mut Choices<'_>) -> Option<ModelProto> {
    let Sources { versions, samples, models } = sources();
    let i = choices.below(models.len() + versions.len());
    let Some(version) = i.checked_sub(models.len()).map(|i| &versions[i]) else {
        return models.get(i).cloned();
    };
    let sample = *choices.of(&Sample::of(samples, version))?;
    let mut types = usual_types(version);
    for (name, all) in &version.constraints {
        if choices.byte() % 4 == 1 {
            types.insert(name, choices.of(all)?);
        }
    }
    decode(&sample.model(version, &types))
}

/// Returns a model of each version, with usual types, and those of the tests.
pub fn all() -> &'static [ModelProto] {
    static ALL: OnceLock<Vec<ModelProto>> = OnceLock::new();
    ALL.get_or_init(|| {
        let Sources { versions, samples, models } = sources();
        let one = |version: &Version| {
            let sample = *Sample::of(samples, version).first()?;
            decode(&sample.model(version, &usual_types(version)))
        };
        models.iter().cloned().chain(versions.iter().filter_map(one)).collect()
    })
}
