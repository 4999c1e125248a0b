//! Reads tree ensembles from attributes: lists of nodes and of weights.

use super::{
    table::{Aggregate, Ensemble, Mode, Split},
    trees::Trees,
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dtype::DType,
    ir::{Reader, ValueId},
    limits::{Budget, Limit},
    ops::ml::{
        cast_to,
        classifier::{self, Labels, PostTransform},
        compute_type, input_as,
    },
    tensor::Tensor,
};
use std::collections::{HashMap, HashSet};

/// Reads `TreeEnsembleClassifier`, versions 1 and 3: a score per class, and the label of the best.
pub fn classifier(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let transform = PostTransform::read(node)?;
    let labels = Labels::read(node, "classlabels_int64s", "classlabels_strings")?;
    let base = read_numbers(node, "base_values")?;
    let dtype = compute_type(node)?;
    let (mut ensemble, indices) = read_nodes(node, dtype, Aggregate::Sum)?;
    let weights = read_weights(node, "class")?;
    let classes = labels.len();
    let ids: HashSet<i64> = weights.iter().map(|weight| weight.target).collect();
    // With two classes, the weights may all belong to one of them.
    let only_class = (ids.len() == 1 && classes <= 2).then(|| ids.iter().copied().next()).flatten();
    let targets = if classes == 1 || only_class == Some(0) { 1 } else { classes };
    add_weights(&mut ensemble, &indices, &weights, targets)?;
    let base = match base.len() {
        0 => vec![0.0; targets],
        n if n == targets || targets == 1 => base[..targets].to_vec(),
        1 => [base, vec![0.0; targets - 1]].concat(),
        n => {
            return Err(bad_attribute(format!(
                "`base_values` has {n} numbers for {targets} scores"
            )));
        }
    };
    let scores = add_trees(node, &ensemble, Aggregate::Sum, &base, dtype)?;
    let scores = cast_to(node, scores, DType::F32)?;
    let positive = weights.iter().all(|weight| weight.weight >= 0.0);
    let threshold = if positive { 0.5 } else { 0.0 };
    match (targets, only_class) {
        (1, _) if classes == 1 => {
            classifier::add_single_class_outputs(node, scores, transform, labels)
        }
        (1, _) => {
            let spread = classifier::spread_for(transform, positive);
            classifier::add_binary_outputs(node, scores, transform, labels, threshold, spread)
        }
        (_, Some(column)) => {
            let column = usize::try_from(column).unwrap_or(0);
            let label = classifier::class_above(node, scores, column, threshold)?;
            classifier::add_outputs(node, label, scores, transform, labels)
        }
        (_, None) => {
            let label = classifier::best_class(node, scores)?;
            classifier::add_outputs(node, label, scores, transform, labels)
        }
    }
}

/// Reads `TreeEnsembleRegressor`, versions 1 and 3.
pub fn regressor(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let transform = PostTransform::read(node)?;
    let choices = [
        ("SUM", Aggregate::Sum),
        ("AVERAGE", Aggregate::Average),
        ("MIN", Aggregate::Min),
        ("MAX", Aggregate::Max),
    ];
    let aggregate = node.choice("aggregate_function", &choices)?;
    let base = read_numbers(node, "base_values")?;
    let dtype = compute_type(node)?;
    let (mut ensemble, indices) = read_nodes(node, dtype, aggregate)?;
    let weights = read_weights(node, "target")?;
    let n_targets = node.maybe_int("n_targets")?;
    let targets =
        count_targets(n_targets, weights.iter().map(|weight| weight.target), node.budget())?;
    add_weights(&mut ensemble, &indices, &weights, targets)?;
    let base = match base.len() {
        0 => vec![0.0; targets],
        1 => vec![base[0]; targets],
        n if n == targets => base,
        n => {
            return Err(bad_attribute(format!(
                "`base_values` has {n} numbers for {targets} targets"
            )));
        }
    };
    let scores = add_trees(node, &ensemble, aggregate, &base, dtype)?;
    let scores = cast_to(node, scores, DType::F32)?;
    Ok(vec![transform.add(node, scores)?])
}

/// Reads `TreeEnsemble`, version 5: separate lists of splits and leaves, whose numbers have the
/// type of the features.
pub fn ensemble(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let code = node.int("post_transform", 0)?;
    let transform = PostTransform::from_code(code)
        .ok_or_else(|| bad_attribute(format!("`post_transform` is {code}, not one of 0 to 4")))?;
    let aggregate = match node.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        n => return Err(bad_attribute(format!("`aggregate_function` is {n}, not one of 0 to 3"))),
    };
    node.ignore("nodes_hitrates");
    let dtype = compute_type(node)?;
    let features = read_required(node, "nodes_featureids")?;
    let count = features.len();
    let leaf_targets = read_required(node, "leaf_targetids")?;
    let leaf_weights = read_tensor(node, "leaf_weights", Some(leaf_targets.len()))?;
    let mut ensemble = Ensemble::new(dtype, aggregate, count + leaf_targets.len());
    let modes = read_modes(node, count)?;
    let values = read_tensor(node, "nodes_splits", Some(count))?;
    let branches = [read_branches(node, "true", count)?, read_branches(node, "false", count)?];
    let nans = read_nan_flags(node, count)?;
    for (i, mode) in modes.into_iter().enumerate() {
        let feature = feature(features[i])?;
        let to = branches.each_ref().map(|branches| branches[i]);
        if to.iter().any(|&to| to >= count + leaf_targets.len()) {
            return Err(bad_attribute(format!("split {i} refers to a node that does not exist")));
        }
        let split = Split { feature, mode, value: values[i], nan_is_true: nans[i], to };
        ensemble.set_split(i, split);
    }
    for root in read_required(node, "tree_roots")? {
        let root = usize::try_from(root).ok().filter(|&root| root < count);
        let missing = || bad_attribute("`tree_roots` refers to a node that does not exist".into());
        ensemble.roots.push(root.ok_or_else(missing)?);
    }
    let n_targets = node.maybe_int("n_targets")?;
    let targets = count_targets(n_targets, leaf_targets.iter().copied(), node.budget())?;
    for (i, (&target, &weight)) in leaf_targets.iter().zip(&leaf_weights).enumerate() {
        ensemble.add_weight(count + i, target_index(target, targets, "target")?, weight)?;
    }
    let input_dtype = node.dtype(0)?;
    let scores = add_trees(node, &ensemble, aggregate, &vec![0.0; targets], dtype)?;
    let scores = transform.add(node, scores)?;
    Ok(vec![cast_to(node, scores, input_dtype)?])
}

/// Reads the comparisons of the splits of version 5.
fn read_modes(node: &mut Reader<'_>, count: usize) -> Result<Vec<Mode>> {
    let codes = read_tensor(node, "nodes_modes", Some(count))?;
    let members = read_tensor(node, "membership_values", None)?;
    let mut members = members.split(|value| value.is_nan());
    let mode = |(i, &code): (usize, &f64)| {
        Ok(match code {
            0.0 => Mode::Leq,
            1.0 => Mode::Lt,
            2.0 => Mode::Gte,
            3.0 => Mode::Gt,
            4.0 => Mode::Eq,
            5.0 => Mode::Neq,
            6.0 => match members.next() {
                Some(values) => Mode::Member(values.to_vec()),
                None => {
                    return Err(bad_attribute(format!(
                        "`membership_values` has no set for split {i}"
                    )));
                }
            },
            _ => return Err(bad_attribute(format!("`nodes_modes` has {code} for split {i}"))),
        })
    };
    codes.iter().enumerate().map(mode).collect()
}

/// Reads the nodes that the splits of version 5 lead to. The leaves are numbered after the splits.
fn read_branches(node: &mut Reader<'_>, branch: &str, count: usize) -> Result<Vec<usize>> {
    let ids = read_list(node, &format!("nodes_{branch}nodeids"), count)?;
    let leaves = read_list(node, &format!("nodes_{branch}leafs"), count)?;
    let to = |(&id, &leaf): (&i64, &i64)| {
        let id = usize::try_from(id).ok()?;
        if leaf != 0 { id.checked_add(count) } else { (id < count).then_some(id) }
    };
    let to = ids.iter().zip(&leaves).map(to).collect::<Option<Vec<usize>>>();
    to.ok_or_else(|| {
        bad_attribute(format!("`nodes_{branch}nodeids` refers to a node that does not exist"))
    })
}

/// The index of each node of an ensemble, by tree and node id.
type NodeIndices = HashMap<(i64, i64), usize>;

/// The weight of a leaf for a result.
struct Weight {
    /// The tree and the id of the leaf.
    node: (i64, i64),
    target: i64,
    weight: f64,
}

/// Reads the nodes of versions 1 and 3.
fn read_nodes(
    node: &mut Reader<'_>,
    dtype: DType,
    aggregate: Aggregate,
) -> Result<(Ensemble, NodeIndices)> {
    node.ignore("nodes_hitrates");
    node.ignore("nodes_hitrates_as_tensor");
    let trees = read_required(node, "nodes_treeids")?;
    let count = trees.len();
    let ids = read_list(node, "nodes_nodeids", count)?;
    let features = read_list(node, "nodes_featureids", count)?;
    let modes = node.maybe_strings("nodes_modes")?.unwrap_or_default();
    let values = read_numbers(node, "nodes_values")?;
    let branches = [
        read_list(node, "nodes_truenodeids", count)?,
        read_list(node, "nodes_falsenodeids", count)?,
    ];
    let nans = read_nan_flags(node, count)?;
    for (name, len) in [("nodes_modes", modes.len()), ("nodes_values", values.len())] {
        check_len(name, len, count)?;
    }
    let mut ensemble = Ensemble::new(dtype, aggregate, count);
    let mut indices = NodeIndices::new();
    for (i, (&tree, &id)) in trees.iter().zip(&ids).enumerate() {
        if i == 0 || trees[i - 1] != tree {
            ensemble.roots.push(i);
        }
        if indices.insert((tree, id), i).is_some() {
            return Err(bad_attribute(format!("tree {tree} has two nodes {id}")));
        }
    }
    for (i, mode) in modes.iter().enumerate() {
        let Some(mode) = parse_mode(mode)? else { continue };
        let mut to = [0; 2];
        for (to, ids) in to.iter_mut().zip(&branches) {
            let (tree, id) = (trees[i], ids[i]);
            *to = *indices.get(&(tree, id)).ok_or_else(|| {
                bad_attribute(format!(
                    "a split of tree {tree} refers to node {id}, which does not exist"
                ))
            })?;
        }
        let feature = feature(features[i])?;
        let split = Split { feature, mode, value: values[i], nan_is_true: nans[i], to };
        ensemble.set_split(i, split);
    }
    Ok((ensemble, indices))
}

/// The comparison of a split of versions 1 and 3; `None` for a leaf.
fn parse_mode(name: &str) -> Result<Option<Mode>> {
    Ok(Some(match name {
        "BRANCH_LEQ" => Mode::Leq,
        "BRANCH_LT" => Mode::Lt,
        "BRANCH_GTE" => Mode::Gte,
        "BRANCH_GT" => Mode::Gt,
        "BRANCH_EQ" => Mode::Eq,
        "BRANCH_NEQ" => Mode::Neq,
        "LEAF" => return Ok(None),
        other => {
            return Err(bad_attribute(format!("`nodes_modes` has the unknown {}", quoted(other))));
        }
    }))
}

/// Reads the weights of versions 1 and 3.
fn read_weights(node: &mut Reader<'_>, kind: &str) -> Result<Vec<Weight>> {
    let targets = read_required(node, &format!("{kind}_ids"))?;
    let trees = read_list(node, &format!("{kind}_treeids"), targets.len())?;
    let ids = read_list(node, &format!("{kind}_nodeids"), targets.len())?;
    let weights = read_numbers(node, &format!("{kind}_weights"))?;
    check_len(&format!("{kind}_weights"), weights.len(), targets.len())?;
    let all = targets.into_iter().zip(trees.into_iter().zip(ids)).zip(weights);
    Ok(all.map(|((target, node), weight)| Weight { node, target, weight }).collect())
}

fn add_weights(
    ensemble: &mut Ensemble,
    indices: &NodeIndices,
    weights: &[Weight],
    targets: usize,
) -> Result {
    for Weight { node, target, weight } in weights {
        let at = indices.get(node).ok_or_else(|| {
            bad_attribute(format!(
                "tree {} has a weight at node {}, which does not exist",
                node.0, node.1
            ))
        })?;
        ensemble.add_weight(*at, target_index(*target, targets, "result")?, *weight)?;
    }
    Ok(())
}

/// Adds the node that evaluates the trees.
fn add_trees(
    node: &mut Reader<'_>,
    ensemble: &Ensemble,
    aggregate: Aggregate,
    base: &[f64],
    dtype: DType,
) -> Result<ValueId> {
    let tables = ensemble.tables(base.len(), node.budget())?;
    let op = Trees {
        aggregate,
        trees: ensemble.roots.len(),
        features: tables.features,
        targets: base.len(),
        width: tables.width,
    };
    let x = input_as(node, dtype)?;
    let values = node.constant("values", tables.values);
    let nodes = node.constant("nodes", tables.nodes);
    let trees = node.constant("trees", tables.trees);
    let weights = tables.weights.map_or(values, |weights| node.constant("weights", weights));
    let base = node.constant("base", Tensor::from_wide(dtype, base));
    node.add(op, &[x, values, nodes, trees, weights, base], &[])
}

/// The number of results: `n_targets`, or one more than the largest index.
fn count_targets(
    n_targets: Option<i64>,
    indices: impl Iterator<Item = i64>,
    budget: &Budget,
) -> Result<usize> {
    let targets = n_targets.or_else(|| Some(indices.max()?.saturating_add(1))).unwrap_or(1);
    let targets = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    let targets = targets.ok_or_else(|| bad_attribute("`n_targets` must be at least 1".into()))?;
    budget.spend(Limit::ListElements, targets, "results of trees")?;
    Ok(targets)
}

fn target_index(target: i64, targets: usize, what: &str) -> Result<usize> {
    let index = usize::try_from(target).ok().filter(|&target| target < targets);
    index.ok_or_else(|| {
        bad_attribute(format!("a leaf has a weight for {what} {target} of {targets}"))
    })
}

fn feature(id: i64) -> Result<u32> {
    // The tables store two flags in the same 32-bit word.
    let id = u32::try_from(id).ok().filter(|&id| id < 1 << 30);
    id.ok_or_else(|| bad_attribute("`nodes_featureids` has an index out of range".into()))
}

/// Reads for each split whether NaN takes the true branch.
fn read_nan_flags(node: &mut Reader<'_>, count: usize) -> Result<Vec<bool>> {
    let name = "nodes_missing_value_tracks_true";
    let flags = node.maybe_ints(name)?.filter(|flags| !flags.is_empty());
    let flags = flags.unwrap_or_else(|| vec![0; count]);
    check_len(name, flags.len(), count)?;
    Ok(flags.into_iter().map(|flag| flag != 0).collect())
}

fn read_list(node: &mut Reader<'_>, name: &str, count: usize) -> Result<Vec<i64>> {
    let ints = read_required(node, name)?;
    check_len(name, ints.len(), count)?;
    Ok(ints)
}

fn read_required(node: &mut Reader<'_>, name: &str) -> Result<Vec<i64>> {
    node.maybe_ints(name)?
        .ok_or_else(|| bad_attribute(format!("the attribute `{name}` is missing")))
}

/// Reads numbers from the attribute `name`, or from the tensor attribute `name` + `_as_tensor`.
fn read_numbers(node: &mut Reader<'_>, name: &str) -> Result<Vec<f64>> {
    let floats = node.maybe_floats(name)?.unwrap_or_default();
    let tensor = read_tensor(node, &format!("{name}_as_tensor"), None)?;
    Ok(if tensor.is_empty() { floats.into_iter().map(f64::from).collect() } else { tensor })
}

/// Reads the numbers of a tensor attribute. An absent attribute is an empty list, which is an error
/// unless `count` is `None` or 0.
fn read_tensor(node: &mut Reader<'_>, name: &str, count: Option<usize>) -> Result<Vec<f64>> {
    let numbers = match node.maybe_tensor(name)? {
        Some(tensor) => {
            tensor.floats().ok_or_else(|| bad_attribute(format!("`{name}` has no numbers")))?
        }
        None => Vec::new(),
    };
    check_len(name, numbers.len(), count.unwrap_or(numbers.len()))?;
    Ok(numbers)
}

fn check_len(name: &str, len: usize, expected: usize) -> Result {
    if len == expected {
        return Ok(());
    }
    Err(bad_attribute(format!("`{name}` has {len} entries instead of {expected}")))
}

fn bad_attribute(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}
