//! Names of operator sets. The main operator set has two: `ai.onnx` and the empty string.

/// Returns the canonical name of an operator set: the empty string for `ai.onnx`.
pub fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Returns the version in which an operator set is meant if a model uses it without an import: the
/// newest one, as ONNX Runtime assumes. The other operator sets must be imported.
pub fn assumed_version(domain: &str) -> Option<i64> {
    match domain {
        "ai.onnx.ml" => Some(5),
        "com.microsoft" => Some(1),
        _ => None,
    }
}

/// Returns the name that messages show: `ai.onnx` for the empty string.
pub fn shown(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}
