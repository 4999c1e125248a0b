//! The scopes of nodes: the modules of the program from which a model was exported.

use onnxc::ir::Node;

/// The metadata in which PyTorch's exporter lists the modules around a node, from the outside in:
/// `['', 'encoder', 'encoder.layer.0', 'linear']`.
const NAME_SCOPES: &str = "pkg.torch.onnx.name_scopes";

/// Returns the scopes around a node, the outermost first: those in its metadata, or the folders of
/// its name (`/encoder/layer.0/MatMul`).
pub fn of(node: &Node) -> Vec<String> {
    let notes = node.notes.as_ref();
    let listed = notes.and_then(|notes| notes.metadata.iter().find(|(key, _)| key == NAME_SCOPES));
    match listed {
        Some((_, text)) => listed_scopes(text),
        None => folders(&node.name),
    }
}

fn listed_scopes(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split('\'').skip(1).step_by(2).collect();
    // The first is the model, and the last is the node.
    let inner = words.get(1..words.len().saturating_sub(1)).unwrap_or_default();
    let mut scopes = Vec::new();
    let mut outer = "";
    for scope in inner {
        let name = scope.strip_prefix(outer).map_or(*scope, |rest| rest.trim_start_matches('.'));
        if !name.is_empty() {
            scopes.push(name.to_owned());
        }
        outer = scope;
    }
    scopes
}

fn folders(name: &str) -> Vec<String> {
    let mut parts: Vec<String> =
        name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    parts.pop();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_those_of_the_exporter() {
        let listed = "['', 'encoder', 'encoder.layer.2', 'encoder.layer.2.dense', 'linear_17']";
        assert_eq!(listed_scopes(listed), ["encoder", "layer.2", "dense"]);
        assert!(listed_scopes("['', 'add']").is_empty() && listed_scopes("").is_empty());
        assert_eq!(folders("/features/features.0/Conv"), ["features", "features.0"]);
        assert!(folders("node_add").is_empty());
    }
}
