//! `TfIdfVectorizer`: counts n-grams in rows of words.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::{DType, I64_ONLY},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, ValueId},
    ops::{
        Entry,
        cast::{Cast, CastMode},
        ml::lookup::{self, Keep},
        nodes,
    },
    plan::{Kernel, geometry, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::collections::BTreeMap;

pub const OPS: &[Entry] = &[nodes("TfIdfVectorizer", 9, vectorizer)];

/// The n-grams of rows whose elements are the indices of words in the pool.
struct Grams {
    mode: &'static Mode,
    width: usize,
    shortest: usize,
    longest: usize,
    skips: usize,
}

/// A way to weigh the n-grams of a row.
struct Mode {
    name: &'static str,
    kernel: Kernel<geometry::Grams>,
}

static TFIDF: Mode = Mode {
    name: "TFIDF",
    kernel: kernel!(I64_ONLY T, text::count_grams, |f, a, p| f(a.input::<T>(0), a.input(1),
        a.input(2), a.input(3), a.input(4), a.output(0), p)),
};
static IDF: Mode = Mode {
    name: "IDF",
    kernel: kernel!(I64_ONLY T, text::find_grams, |f, a, p| f(a.input::<T>(0), a.input(1),
        a.input(2), a.input(3), a.input(4), a.output(0), p)),
};

/// A trie of n-grams. The first node is the root.
struct Trie {
    nodes: Vec<TrieNode>,
}

/// The end of the n-grams that start with the same words.
#[derive(Default)]
struct TrieNode {
    /// The node for each next word.
    next: BTreeMap<i64, usize>,
    /// The column and the weight of the n-gram that ends here.
    gram: Option<(i64, f32)>,
}

/// The attributes of a node.
struct Attribute {
    limits: [usize; 2],
    skips: usize,
    counts: Vec<usize>,
    columns: Vec<i64>,
    weights: Vec<f32>,
}

/// The most columns of the output.
const MAX_COLUMNS: i64 = 1 << 31;

fn vectorizer(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let mode = node.string("mode", "")?;
    let (mode, weighted) = match mode.as_str() {
        "TF" => (&TFIDF, false),
        "IDF" => (&IDF, true),
        "TFIDF" => (&TFIDF, true),
        other => return Err(bad(format!("`mode` is {other:?}, but must be TF, IDF or TFIDF"))),
    };
    let ints = node.maybe_ints("pool_int64s")?.filter(|pool| !pool.is_empty());
    let strings = node.maybe_strings("pool_strings")?.filter(|pool| !pool.is_empty());
    let x = node.input(0)?;
    let (x, pool) = match (node.dtype(0)?, ints, strings) {
        (DType::String, None, strings) => (x, Tensor::from_strings(strings.unwrap_or_default())),
        (DType::I64, ints, None) => (x, Tensor::from_ints(&ints.unwrap_or_default())),
        (DType::I32, ints, None) => {
            let cast = Cast { to: DType::I64, mode: CastMode::DEFAULT };
            (node.add(cast, &[x], &[])?, Tensor::from_ints(&ints.unwrap_or_default()))
        }
        (dtype, ..) => {
            return Err(bad(format!("the input is {dtype}, but the pool is of another type")));
        }
    };
    let attribute = Attribute::read(node, pool.len(), weighted)?;
    let keys = lookup::sort_unique(&pool, Keep::First);
    let words = lookup::find(node, x, &pool.take(&keys))?;
    let trie = build_trie(&attribute, &word_indices(&pool, &keys))?;
    let width = attribute.columns.iter().max().map_or(0, |last| last + 1);
    let [shortest, longest] = attribute.limits;
    let width = usize::try_from(width).unwrap_or(0);
    let op = Grams { mode, width, shortest, longest, skips: attribute.skips };
    Ok(vec![node.add(op, &[words], &trie.table())?])
}

impl Attribute {
    fn read(node: &mut Reader<'_>, pool: usize, weighted: bool) -> Result<Attribute> {
        let mut size = |name: &str, least: i64| {
            let value = node.required_int(name)?;
            let size = usize::try_from(value).ok().filter(|_| value >= least);
            size.ok_or_else(|| bad(format!("`{name}` is {value}, but must be at least {least}")))
        };
        let limits = [size("min_gram_length", 1)?, size("max_gram_length", 1)?];
        let skips = size("max_skip_count", 0)?;
        if limits[0] > limits[1] {
            return Err(bad("`max_gram_length` is less than `min_gram_length`".into()));
        }
        let columns = node.maybe_ints("ngram_indexes")?.unwrap_or_default();
        if let Some(column) = columns.iter().find(|column| !(0..MAX_COLUMNS).contains(*column)) {
            let message = format!(
                "a column in `ngram_indexes` is {column}, but must be from 0 to below {MAX_COLUMNS}"
            );
            return Err(bad(message));
        }
        let counts = node.maybe_ints("ngram_counts")?.unwrap_or_default();
        let counts =
            counts.into_iter().map(|n| usize::try_from(n).ok()).collect::<Option<Vec<usize>>>();
        let counts = counts
            .filter(|counts| counts.is_sorted() && counts.last().is_none_or(|&last| last <= pool));
        let counts = counts
            .ok_or_else(|| bad("`ngram_counts` must be sorted, and within the pool".into()))?;
        let weights = node.maybe_floats("weights")?.unwrap_or_default();
        let weights = if weighted { weights } else { Vec::new() };
        if !weights.is_empty() && weights.len() < columns.len() {
            return Err(bad("there are fewer weights than grams".into()));
        }
        Ok(Attribute { limits, skips, counts, columns, weights })
    }
}

/// Returns the index of each word of the pool among the distinct words.
fn word_indices(pool: &Tensor, keys: &[usize]) -> Vec<i64> {
    let number = |same: &dyn Fn(usize) -> std::cmp::Ordering| {
        keys.binary_search_by(|&key| same(key)).map_or(-1, |index| index as i64)
    };
    match (pool.strings(), pool.ints()) {
        (Some(all), _) => all.iter().map(|x| number(&|key| all[key].cmp(x))).collect(),
        (None, Some(all)) => all.iter().map(|x| number(&|key| all[key].cmp(x))).collect(),
        (None, None) => Vec::new(),
    }
}

/// Builds the trie of the pool's n-grams.
fn build_trie(attribute: &Attribute, pool: &[i64]) -> Result<Trie> {
    let Attribute { limits: [shortest, longest], counts, columns, weights, .. } = attribute;
    let (mut trie, mut number) = (Trie { nodes: vec![TrieNode::default()] }, 0);
    for (i, &start) in counts.iter().enumerate() {
        let (end, length) = (counts.get(i + 1).copied().unwrap_or(pool.len()), i + 1);
        for gram in pool[start..end].chunks_exact(length) {
            let Some(&column) = columns.get(number) else {
                return Err(bad("`ngram_indexes` has fewer columns than there are grams".into()));
            };
            if (*shortest..=*longest).contains(&length) {
                let end = gram.iter().fold(0, |at, &word| trie.next(at, word));
                let weight = weights.get(number).copied().unwrap_or(1.0);
                trie.nodes[end].gram = Some((column, weight));
            }
            number += 1;
        }
    }
    Ok(trie)
}

impl Trie {
    /// Returns the node behind a node and the next word, and creates it if there is none.
    fn next(&mut self, at: usize, word: i64) -> usize {
        let new = self.nodes.len();
        let next = *self.nodes[at].next.entry(word).or_insert(new);
        if next == new {
            self.nodes.push(TrieNode::default());
        }
        next
    }

    /// Returns the trie in breadth-first order, the kernels' input.
    fn table(&self) -> [Tensor; 4] {
        let (mut first, mut words, mut columns, mut weights) = (vec![0], vec![], vec![], vec![]);
        let mut queue = std::collections::VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            for (&word, &next) in &self.nodes[at].next {
                let (column, weight) = self.nodes[next].gram.unwrap_or((-1, 0.0));
                words.push(word);
                columns.push(column);
                weights.push(weight);
                queue.push_back(next);
            }
            first.push(u32::try_from(words.len()).unwrap_or(u32::MAX));
        }
        let (words, columns) = (Tensor::from_ints(&words), Tensor::from_ints(&columns));
        [Tensor::from_places(&first), words, columns, Tensor::from_floats(&weights)]
    }
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}

impl Op for Grams {
    fn name(&self) -> &'static str {
        "TfIdfVectorizer"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("mode", self.mode.name);
        for (name, size) in [
            ("width", self.width),
            ("min_gram_length", self.shortest),
            ("max_gram_length", self.longest),
            ("max_skip_count", self.skips),
        ] {
            a.int(name, i64::try_from(size).unwrap_or(i64::MAX));
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = match &*cx.of(0, I64_ONLY)?.shape {
            [] | [_] => vec![self.width.into()],
            [rows, _] => vec![rows.clone(), self.width.into()],
            shape => {
                let message =
                    format!("input 0 must have at most two axes, but has {}", shape.len());
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            }
        };
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let row = cx.ty(0)?.shape.last().cloned().unwrap_or_else(|| 1.into());
        let &Grams { width, shortest, longest, skips, .. } = self;
        let geometry = geometry::Grams { row, width, shortest, longest, skips };
        cx.call_for_input(&self.mode.kernel, geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_pool_is_breadth_first() {
        let attribute = Attribute {
            limits: [2, 3],
            skips: 0,
            counts: vec![0, 1, 5],
            columns: vec![0, 1, 2, 3],
            weights: vec![0.5, 1.5, 2.5, 3.5],
        };
        let pool = [7, 8, 9, 7, 9, 8, 9, 9];
        let trie = build_trie(&attribute, &pool).expect("the attributes are valid");
        let [first, words, columns, weights] = trie.table();
        assert_eq!(first.ints(), Some(vec![0, 2, 3, 4, 4, 5, 5]));
        assert_eq!(words.ints(), Some(vec![7, 8, 9, 9, 9]));
        assert_eq!(columns.ints(), Some(vec![-1, -1, 2, 1, 3]));
        assert_eq!(weights.floats(), Some(vec![0.0, 0.0, 2.5, 1.5, 3.5]));
    }

    #[test]
    fn a_gram_may_be_long() {
        let length = 300_000;
        let attribute = Attribute {
            limits: [1, length],
            skips: 0,
            counts: vec![0; length],
            columns: vec![0],
            weights: Vec::new(),
        };
        let trie = build_trie(&attribute, &vec![7; length]).expect("the attributes are valid");
        assert_eq!(trie.table()[1].len(), length);
    }

    #[test]
    fn words_are_numbered_in_sorted_order() {
        let pool = Tensor::from_strings(["b", "a", "b", "c"].map(String::from).to_vec());
        let keys = lookup::sort_unique(&pool, Keep::First);
        assert_eq!(word_indices(&pool, &keys), [1, 0, 1, 2]);
    }
}
