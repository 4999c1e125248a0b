//! N-grams: counts known sequences of elements in rows.

use crate::loops::index::place;

/// The geometry of rows, and the n-grams to count.
#[derive(Clone, Copy, Debug)]
pub struct Grams {
    /// The elements of a row.
    pub row: usize,
    /// The length of a row of the result.
    pub width: usize,
    /// The length of the shortest n-gram.
    pub shortest: usize,
    /// The length of the longest n-gram.
    pub longest: usize,
    /// The most elements that may be skipped between two elements of an n-gram.
    pub skips: usize,
}

/// Sums the weights of the known n-grams in each row, once per occurrence. The elements are indices
/// of words. The known n-grams form a trie: the edges of node `i` are those from `first[i]` up to
/// `first[i + 1]`, ordered by word; edge `i` leads to node `i + 1` and has the column and the
/// weight of the n-gram that ends there, if one does.
pub fn count_grams(
    x: &[i64],
    first: &[u32],
    words: &[i64],
    columns: &[i64],
    weights: &[f32],
    y: &mut [f32],
    geometry: Grams,
) {
    each_gram(x, Tree { first, words, columns, weights }, y, geometry, |y, weight| *y += weight);
}

/// [`count_grams`], but with the weight of each n-gram once.
pub fn find_grams(
    x: &[i64],
    first: &[u32],
    words: &[i64],
    columns: &[i64],
    weights: &[f32],
    y: &mut [f32],
    geometry: Grams,
) {
    each_gram(x, Tree { first, words, columns, weights }, y, geometry, |y, weight| *y = weight);
}

#[derive(Clone, Copy)]
struct Tree<'a> {
    first: &'a [u32],
    words: &'a [i64],
    columns: &'a [i64],
    weights: &'a [f32],
}

impl Tree<'_> {
    /// Returns the edge of `node` for `word`.
    fn edge(&self, node: usize, word: i64) -> Option<usize> {
        let (start, end) = (place(self.first[node]), place(self.first[node + 1]));
        Some(start + self.words[start..end].binary_search(&word).ok()?)
    }
}

fn each_gram(x: &[i64], tree: Tree<'_>, y: &mut [f32], geometry: Grams, see: fn(&mut f32, f32)) {
    let Grams { row, width, shortest, skips, .. } = geometry;
    y.fill(0.0);
    if row == 0 || width == 0 {
        return;
    }
    for (x, y) in x.chunks_exact(row).zip(y.chunks_exact_mut(width)) {
        for step in 1..=skips.saturating_add(1).min(row.max(1)) {
            // A 1-gram has nothing to skip, so it is counted once.
            let shortest = if step > 1 { shortest.max(2) } else { shortest };
            for start in 0..row {
                grams_from(&x[start..], tree, y, step, [shortest, geometry.longest], see);
            }
        }
    }
}

/// Calls `visit` with the n-grams that start at the first element.
fn grams_from(
    x: &[i64],
    tree: Tree<'_>,
    y: &mut [f32],
    step: usize,
    [shortest, longest]: [usize; 2],
    see: fn(&mut f32, f32),
) {
    let mut node = 0;
    for (before, &word) in x.iter().step_by(step).take(longest).enumerate() {
        let Some(edge) = tree.edge(node, word) else { return };
        let column = usize::try_from(tree.columns[edge]).ok();
        if before + 1 >= shortest
            && let Some(y) = column.and_then(|column| y.get_mut(column))
        {
            see(y, tree.weights[edge]);
        }
        node = edge + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trie of the n-grams [1], [2], [1 1], [1 2] and [2 1 1], with a column each.
    const FIRST: [u32; 8] = [0, 2, 4, 5, 5, 5, 6, 6];
    const WORDS: [i64; 6] = [1, 2, 1, 2, 1, 1];
    const COLUMNS: [i64; 6] = [0, 1, 2, 3, -1, 4];

    fn check(kernel: Kernel, x: &[i64], limits: [usize; 3], expected: [f32; 5]) {
        let [shortest, longest, skips] = limits;
        let (mut y, weights) = ([9.0; 5], [2.0; 6]);
        let geometry = Grams { row: x.len(), width: 5, shortest, longest, skips };
        kernel(x, &FIRST, &WORDS, &COLUMNS, &weights, &mut y, geometry);
        assert_eq!(y.map(|y| y / 2.0), expected);
    }

    type Kernel = fn(&[i64], &[u32], &[i64], &[i64], &[f32], &mut [f32], Grams);

    #[test]
    fn n_grams_of_the_vocabulary_are_counted() {
        check(count_grams, &[2, 1, 1, 2, 1, 1], [1, 3, 0], [4.0, 2.0, 2.0, 1.0, 2.0]);
        check(count_grams, &[2, 1, 1, 2, 1, 1], [2, 2, 0], [0.0, 0.0, 2.0, 1.0, 0.0]);
        check(find_grams, &[2, 1, 1, 2, 1, 1], [1, 3, 0], [1.0; 5]);
        check(count_grams, &[7, 7], [1, 3, 9], [0.0; 5]);
        check(count_grams, &[], [1, 3, 9], [0.0; 5]);
    }

    #[test]
    fn elements_may_be_skipped() {
        check(count_grams, &[1, 9, 1, 9, 2], [1, 2, 1], [2.0, 1.0, 1.0, 1.0, 0.0]);
        check(count_grams, &[2, 9, 1, 9, 1], [3, 3, 1], [0.0, 0.0, 0.0, 0.0, 1.0]);
        check(count_grams, &[1, 9, 9, 1], [2, 2, usize::MAX], [0.0, 0.0, 1.0, 0.0, 0.0]);
    }
}
