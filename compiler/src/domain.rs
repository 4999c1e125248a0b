//! Names of operator sets. The main operator set has two: `ai.onnx` and the empty string.

/// Returns the canonical name of an operator set: the empty string for `ai.onnx`.
pub fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Returns the name that messages show: `ai.onnx` for the empty string.
pub fn shown(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}
