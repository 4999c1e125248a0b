//! How files say ensembles: by lists of nodes and of weights.

use super::{
    table::{Aggregate, Ensemble, Mode, Split},
    trees::Trees,
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dtype::DType,
    ir::{Reader, ValueId},
    ops::ml::{
        as_type,
        classifier::{self, Labels, PostTransform},
        input_as, wide,
    },
    tensor::Tensor,
};
use std::collections::{HashMap, HashSet};

/// Versions 1 and 3: scores for classes, and the label of the best.
pub fn classifier(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let transform = PostTransform::read(node)?;
    let labels = Labels::read(node, "classlabels_int64s", "classlabels_strings")?;
    let base = numbers(node, "base_values")?;
    let dtype = wide(node)?;
    let (mut ensemble, places) = nodes(node, dtype, Aggregate::Sum)?;
    let weights = weights(node, "class")?;
    let classes = labels.len();
    let ids: HashSet<i64> = weights.iter().map(|weight| weight.target).collect();
    // With two classes, weights may be said for one of them alone.
    let alone = (ids.len() == 1 && classes <= 2).then(|| ids.iter().copied().next()).flatten();
    let targets = if classes == 1 || alone == Some(0) { 1 } else { classes };
    weigh(&mut ensemble, &places, &weights, targets)?;
    let base = match base.len() {
        0 => vec![0.0; targets],
        n if n == targets || targets == 1 => base[..targets].to_vec(),
        1 => [base, vec![0.0; targets - 1]].concat(),
        n => return Err(bad(format!("`base_values` has {n} numbers for {targets} scores"))),
    };
    let scores = trees(node, &ensemble, Aggregate::Sum, &base, dtype)?;
    let scores = as_type(node, scores, DType::F32)?;
    let positive = weights.iter().all(|weight| weight.weight >= 0.0);
    let threshold = if positive { 0.5 } else { 0.0 };
    match (targets, alone) {
        (1, _) if classes == 1 => classifier::lone(node, scores, transform, labels),
        (1, _) => {
            let spread = classifier::spread(transform, positive);
            classifier::binary(node, scores, transform, labels, threshold, spread)
        }
        (_, Some(column)) => {
            let column = usize::try_from(column).unwrap_or(0);
            let label = classifier::above(node, scores, column, threshold)?;
            classifier::finish(node, label, scores, transform, labels)
        }
        (_, None) => {
            let label = classifier::best(node, scores)?;
            classifier::finish(node, label, scores, transform, labels)
        }
    }
}

/// Versions 1 and 3: numbers.
pub fn regressor(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let transform = PostTransform::read(node)?;
    let choices = [
        ("SUM", Aggregate::Sum),
        ("AVERAGE", Aggregate::Average),
        ("MIN", Aggregate::Min),
        ("MAX", Aggregate::Max),
    ];
    let aggregate = node.choice("aggregate_function", &choices)?;
    let base = numbers(node, "base_values")?;
    let dtype = wide(node)?;
    let (mut ensemble, places) = nodes(node, dtype, aggregate)?;
    let weights = weights(node, "target")?;
    let said = node.maybe_int("n_targets")?;
    let targets = targets(said, weights.iter().map(|weight| weight.target))?;
    weigh(&mut ensemble, &places, &weights, targets)?;
    let base = match base.len() {
        0 => vec![0.0; targets],
        1 => vec![base[0]; targets],
        n if n == targets => base,
        n => return Err(bad(format!("`base_values` has {n} numbers for {targets} targets"))),
    };
    let scores = trees(node, &ensemble, aggregate, &base, dtype)?;
    let scores = as_type(node, scores, DType::F32)?;
    Ok(vec![transform.add(node, scores)?])
}

/// Version 5: splits and leaves apart, numbers of the type of the features.
pub fn ensemble(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let code = node.int("post_transform", 0)?;
    let transform = PostTransform::from_code(code)
        .ok_or_else(|| bad(format!("`post_transform` is {code}, not one of 0 to 4")))?;
    let aggregate = match node.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        n => return Err(bad(format!("`aggregate_function` is {n}, not one of 0 to 3"))),
    };
    node.ignore("nodes_hitrates");
    let dtype = wide(node)?;
    let features = required(node, "nodes_featureids")?;
    let count = features.len();
    let leaf_targets = required(node, "leaf_targetids")?;
    let leaf_weights = tensor(node, "leaf_weights", Some(leaf_targets.len()))?;
    let mut ensemble = Ensemble::new(dtype, aggregate, count + leaf_targets.len());
    let modes = modes(node, count)?;
    let values = tensor(node, "nodes_splits", Some(count))?;
    let ways = [ways(node, "true", count)?, ways(node, "false", count)?];
    let nans = flags(node, count)?;
    for (i, mode) in modes.into_iter().enumerate() {
        let feature = feature(features[i])?;
        let to = ways.each_ref().map(|ways| ways[i]);
        if to.iter().any(|&to| to >= count + leaf_targets.len()) {
            return Err(bad(format!("split {i} leads to a node that does not exist")));
        }
        let split = Split { feature, mode, value: values[i], nan_is_yes: nans[i], to };
        ensemble.split(i, split);
    }
    for root in required(node, "tree_roots")? {
        let root = usize::try_from(root).ok().filter(|&root| root < count);
        ensemble.roots.push(root.ok_or_else(|| bad("a tree has no root".into()))?);
    }
    let said = node.maybe_int("n_targets")?;
    let targets = targets(said, leaf_targets.iter().copied())?;
    for (i, (&target, &weight)) in leaf_targets.iter().zip(&leaf_weights).enumerate() {
        ensemble.weigh(count + i, place(target, targets, "target")?, weight)?;
    }
    let given = node.dtype(0)?;
    let scores = trees(node, &ensemble, aggregate, &vec![0.0; targets], dtype)?;
    let scores = transform.add(node, scores)?;
    Ok(vec![as_type(node, scores, given)?])
}

/// How the splits of version 5 compare.
fn modes(node: &mut Reader<'_>, count: usize) -> Result<Vec<Mode>> {
    let codes = tensor(node, "nodes_modes", Some(count))?;
    let members = tensor(node, "membership_values", None)?;
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
                None => return Err(bad(format!("`membership_values` has no set for split {i}"))),
            },
            _ => return Err(bad(format!("`nodes_modes` has {code} for split {i}"))),
        })
    };
    codes.iter().enumerate().map(mode).collect()
}

/// Where the splits of version 5 lead to; leaves are counted behind the splits.
fn ways(node: &mut Reader<'_>, way: &str, count: usize) -> Result<Vec<usize>> {
    let ids = list(node, &format!("nodes_{way}nodeids"), count)?;
    let leaves = list(node, &format!("nodes_{way}leafs"), count)?;
    let to = |(&id, &leaf): (&i64, &i64)| {
        let id = usize::try_from(id).ok()?;
        if leaf != 0 { id.checked_add(count) } else { (id < count).then_some(id) }
    };
    let to = ids.iter().zip(&leaves).map(to).collect::<Option<Vec<usize>>>();
    to.ok_or_else(|| bad(format!("`nodes_{way}nodeids` names a node that does not exist")))
}

/// The nodes of an ensemble by tree and number.
type Places = HashMap<(i64, i64), usize>;

/// What a leaf adds to a result.
struct Weight {
    node: (i64, i64),
    target: i64,
    weight: f64,
}

/// The nodes of versions 1 and 3.
fn nodes(node: &mut Reader<'_>, dtype: DType, aggregate: Aggregate) -> Result<(Ensemble, Places)> {
    node.ignore("nodes_hitrates");
    node.ignore("nodes_hitrates_as_tensor");
    let trees = required(node, "nodes_treeids")?;
    let count = trees.len();
    let ids = list(node, "nodes_nodeids", count)?;
    let features = list(node, "nodes_featureids", count)?;
    let modes = node.maybe_strings("nodes_modes")?.unwrap_or_default();
    let values = numbers(node, "nodes_values")?;
    let ways = [list(node, "nodes_truenodeids", count)?, list(node, "nodes_falsenodeids", count)?];
    let nans = flags(node, count)?;
    for (name, len) in [("nodes_modes", modes.len()), ("nodes_values", values.len())] {
        check_len(name, len, count)?;
    }
    let mut ensemble = Ensemble::new(dtype, aggregate, count);
    let mut places = Places::new();
    for (i, (&tree, &id)) in trees.iter().zip(&ids).enumerate() {
        if i == 0 || trees[i - 1] != tree {
            ensemble.roots.push(i);
        }
        if places.insert((tree, id), i).is_some() {
            return Err(bad(format!("tree {tree} has two nodes {id}")));
        }
    }
    for (i, mode) in modes.iter().enumerate() {
        let Some(mode) = mode_of(mode)? else { continue };
        let mut to = [0; 2];
        for (to, ids) in to.iter_mut().zip(&ways) {
            let (tree, id) = (trees[i], ids[i]);
            *to = *places.get(&(tree, id)).ok_or_else(|| {
                bad(format!("a split of tree {tree} leads to node {id}, which does not exist"))
            })?;
        }
        let feature = feature(features[i])?;
        let split = Split { feature, mode, value: values[i], nan_is_yes: nans[i], to };
        ensemble.split(i, split);
    }
    Ok((ensemble, places))
}

/// How a split of versions 1 and 3 compares; `None` for a leaf.
fn mode_of(name: &str) -> Result<Option<Mode>> {
    Ok(Some(match name {
        "BRANCH_LEQ" => Mode::Leq,
        "BRANCH_LT" => Mode::Lt,
        "BRANCH_GTE" => Mode::Gte,
        "BRANCH_GT" => Mode::Gt,
        "BRANCH_EQ" => Mode::Eq,
        "BRANCH_NEQ" => Mode::Neq,
        "LEAF" => return Ok(None),
        other => return Err(bad(format!("`nodes_modes` has {}", quoted(other)))),
    }))
}

/// The weights of versions 1 and 3.
fn weights(node: &mut Reader<'_>, kind: &str) -> Result<Vec<Weight>> {
    let targets = required(node, &format!("{kind}_ids"))?;
    let trees = list(node, &format!("{kind}_treeids"), targets.len())?;
    let ids = list(node, &format!("{kind}_nodeids"), targets.len())?;
    let weights = numbers(node, &format!("{kind}_weights"))?;
    check_len(&format!("{kind}_weights"), weights.len(), targets.len())?;
    let all = targets.into_iter().zip(trees.into_iter().zip(ids)).zip(weights);
    Ok(all.map(|((target, node), weight)| Weight { node, target, weight }).collect())
}

fn weigh(ensemble: &mut Ensemble, places: &Places, weights: &[Weight], targets: usize) -> Result {
    for Weight { node, target, weight } in weights {
        let at = places.get(node).ok_or_else(|| {
            bad(format!("tree {} has a weight at node {}, which does not exist", node.0, node.1))
        })?;
        ensemble.weigh(*at, place(*target, targets, "result")?, *weight)?;
    }
    Ok(())
}

/// Adds the node that follows the trees.
fn trees(
    node: &mut Reader<'_>,
    ensemble: &Ensemble,
    aggregate: Aggregate,
    base: &[f64],
    dtype: DType,
) -> Result<ValueId> {
    let tables = ensemble.tables(base.len())?;
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

/// The number of results.
/// The results for each row that trees may have: more than any real ones.
const MOST_TARGETS: usize = 1 << 24;

fn targets(said: Option<i64>, named: impl Iterator<Item = i64>) -> Result<usize> {
    let targets = said.or_else(|| Some(named.max()? + 1)).unwrap_or(1);
    let targets = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    if let Some(targets) = targets.filter(|&targets| targets > MOST_TARGETS) {
        let message = format!("{targets} results for each row, where {MOST_TARGETS} are the most");
        return Err(Diagnostic::new(Code::TooLarge, message));
    }
    targets.ok_or_else(|| bad("`n_targets` is not a number of results".into()))
}

fn place(target: i64, targets: usize, what: &str) -> Result<usize> {
    let place = usize::try_from(target).ok().filter(|&target| target < targets);
    place.ok_or_else(|| bad(format!("a leaf has a weight for {what} {target} of {targets}")))
}

fn feature(id: i64) -> Result<u32> {
    // Two bits of the number are needed for more.
    let id = u32::try_from(id).ok().filter(|&id| id < 1 << 30);
    id.ok_or_else(|| bad("`nodes_featureids` names a feature that cannot exist".into()))
}

/// Whether NaN counts as yes, for each split.
fn flags(node: &mut Reader<'_>, count: usize) -> Result<Vec<bool>> {
    let name = "nodes_missing_value_tracks_true";
    let flags = node.maybe_ints(name)?.filter(|flags| !flags.is_empty());
    let flags = flags.unwrap_or_else(|| vec![0; count]);
    check_len(name, flags.len(), count)?;
    Ok(flags.into_iter().map(|flag| flag != 0).collect())
}

fn list(node: &mut Reader<'_>, name: &str, count: usize) -> Result<Vec<i64>> {
    let ints = required(node, name)?;
    check_len(name, ints.len(), count)?;
    Ok(ints)
}

fn required(node: &mut Reader<'_>, name: &str) -> Result<Vec<i64>> {
    node.maybe_ints(name)?.ok_or_else(|| bad(format!("the attribute `{name}` is missing")))
}

/// Numbers said as `float`s, or by an attribute of the same name with `_as_tensor` behind it.
fn numbers(node: &mut Reader<'_>, name: &str) -> Result<Vec<f64>> {
    let floats = node.maybe_floats(name)?.unwrap_or_default();
    let tensor = tensor(node, &format!("{name}_as_tensor"), None)?;
    Ok(if tensor.is_empty() { floats.into_iter().map(f64::from).collect() } else { tensor })
}

/// The numbers of an attribute that is a tensor; none where it is absent and may be.
fn tensor(node: &mut Reader<'_>, name: &str, count: Option<usize>) -> Result<Vec<f64>> {
    let numbers = match node.maybe_tensor(name)? {
        Some(tensor) => tensor.floats().ok_or_else(|| bad(format!("`{name}` has no numbers")))?,
        None => Vec::new(),
    };
    check_len(name, numbers.len(), count.unwrap_or(numbers.len()))?;
    Ok(numbers)
}

fn check_len(name: &str, found: usize, expected: usize) -> Result {
    if found == expected {
        return Ok(());
    }
    Err(bad(format!("`{name}` has {found} entries, where others have {expected}")))
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}
