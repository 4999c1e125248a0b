//! `NonMaxSuppression`: keeps the box with the highest score among boxes that overlap.

use crate::loops::index::signed;
use crate::simd::{Simd, WithSimd, dispatch};

/// The numbers of images, classes and boxes.
#[derive(Clone, Copy, Debug)]
pub struct Boxes {
    /// The number of images.
    pub images: usize,
    /// The number of classes.
    pub classes: usize,
    /// The number of boxes in each image.
    pub boxes: usize,
}

/// The boxes, and the optional limits, each a tensor of one element.
#[derive(Clone, Copy, Debug)]
pub struct BoxOperands<'a> {
    /// The boxes of all images.
    pub boxes: &'a [f32],
    /// The scores of all images and classes.
    pub scores: &'a [f32],
    /// The maximum number of boxes per class and image; 0 if absent.
    pub count: Option<&'a [i64]>,
    /// The maximum intersection over union of two boxes; 0 if absent.
    pub overlap: Option<&'a [f32]>,
    /// The score that a box must exceed.
    pub score: Option<&'a [f32]>,
}

/// Writes the image, the class and the index of each selected box, and the number of selected boxes
/// into `sizes`. Boxes are given by two corners. The scratch memory `order` has an element per box
/// of an image.
pub fn select_corners(
    sizes: &mut [usize],
    operands: BoxOperands<'_>,
    kept: &mut [i64],
    order: &mut [i64],
    geometry: Boxes,
) {
    sizes[0] = select(operands, kept, order, geometry, |b| {
        let [y, x] = [[b[0], b[2]], [b[1], b[3]]];
        [x, y].map(|[a, b]| if a >= b { [b, a] } else { [a, b] })
    });
}

/// [`select_corners`] for boxes given by center, width and height.
pub fn select_centers(
    sizes: &mut [usize],
    operands: BoxOperands<'_>,
    kept: &mut [i64],
    order: &mut [i64],
    geometry: Boxes,
) {
    sizes[0] = select(operands, kept, order, geometry, |b| {
        [[b[0], b[2]], [b[1], b[3]]].map(|[middle, len]| [middle - len / 2.0, middle + len / 2.0])
    });
}

/// The start and the end of a box along each axis.
type Sides = [[f32; 2]; 2];

/// The left, right, top and bottom side of a box, and its area.
type Numbers = [f32; 5];

/// Returns the numbers of a box.
fn measure([[left, right], [top, bottom]]: Sides) -> Numbers {
    [left, right, top, bottom, (right - left) * (bottom - top)]
}

fn select(
    BoxOperands { boxes, scores, count, overlap, score }: BoxOperands<'_>,
    kept: &mut [i64],
    order: &mut [i64],
    geometry: Boxes,
    sides: fn(&[f32]) -> Sides,
) -> usize {
    let Boxes { images, classes, boxes: len } = geometry;
    let most = first(count).map_or(0, |count| usize::try_from(count).unwrap_or(0));
    let overlap = first(overlap).unwrap_or(0.0);
    let mut found = 0;
    for (image, class) in (0..images).flat_map(|i| (0..classes).map(move |c| (i, c))) {
        let boxes = &boxes[image * len * 4..][..len * 4];
        let scores = &scores[(image * classes + class) * len..][..len];
        let order = sort_by_score(scores, first(score), order);
        let count = dispatch(Select { boxes, order, most, overlap, sides });
        for (kept, &at) in kept[found * 3..].chunks_exact_mut(3).zip(&order[..count]) {
            kept.copy_from_slice(&[signed(image), signed(class), at]);
        }
        found += count;
    }
    found
}

fn first<T: Copy>(tensor: Option<&[T]>) -> Option<T> {
    tensor?.first().copied()
}

/// Returns the boxes that exceed the score, in descending order; equal scores keep their order, and
/// NaN is below all numbers.
fn sort_by_score<'a>(scores: &[f32], least: Option<f32>, order: &'a mut [i64]) -> &'a mut [i64] {
    let mut count = 0;
    for (i, &score) in scores.iter().enumerate() {
        if least.is_none_or(|least| score > least) {
            // The rank in the high half, the index in the low half: integers sort faster than
            // scores that are looked up.
            order[count] = (i64::from(rank(score)) << 32) | signed(i);
            count += 1;
        }
    }
    let order = &mut order[..count];
    order.sort_unstable();
    order.iter_mut().for_each(|at| *at &= i64::from(u32::MAX));
    order
}

/// Returns an integer that is the smaller the larger the score is.
fn rank(score: f32) -> i32 {
    if score.is_nan() {
        return i32::MAX;
    }
    // Zeros of both signs are equal.
    let bits = (score + 0.0).to_bits().cast_signed();
    // Negative numbers have ascending bits already.
    if bits < 0 { bits ^ i32::MIN } else { !bits }
}

/// The boxes of one image and class: moves the indices of the selected ones to the front of `order`
/// and returns their number.
struct Select<'a> {
    boxes: &'a [f32],
    order: &'a mut [i64],
    most: usize,
    overlap: f32,
    sides: fn(&[f32]) -> Sides,
}

impl WithSimd for Select<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        let Select { boxes, order, most, overlap, sides } = self;
        let mut block = Block::EMPTY;
        let (mut found, mut next, mut end) = (0, 0, order.len());
        while next < end && found < most {
            let at = order[next];
            next += 1;
            let new = measure(sides(&boxes[usize::try_from(at).unwrap_or(0) * 4..][..4]));
            if block.overlaps(s, new, overlap) {
                continue;
            }
            order[found] = at;
            found += 1;
            block.push(new);
            if block.count < BLOCK {
                continue;
            }
            // The candidates that are left need not be compared with this block again.
            let mut left = next;
            for k in next..end {
                let at = order[k];
                let new = measure(sides(&boxes[usize::try_from(at).unwrap_or(0) * 4..][..4]));
                if !block.overlaps(s, new, overlap) {
                    order[left] = at;
                    left += 1;
                }
            }
            (end, block) = (left, Block::EMPTY);
        }
        found
    }
}

/// The largest number of selected boxes that a candidate is compared with at a time: whole vectors.
const BLOCK: usize = 256;

/// Selected boxes: each row holds one of the [`Numbers`] of all, and zeros after them.
struct Block {
    rows: [[f32; BLOCK]; 5],
    count: usize,
}

impl Block {
    const EMPTY: Block = Block { rows: [[0.0; BLOCK]; 5], count: 0 };

    fn push(&mut self, numbers: Numbers) {
        for (row, number) in self.rows.iter_mut().zip(numbers) {
            row[self.count] = number;
        }
        self.count += 1;
    }

    /// Returns whether the intersection over union of `new` and any of the boxes exceeds `most`.
    #[inline(always)]
    fn overlaps<S: Simd>(&self, s: S, new: Numbers, most: f32) -> bool {
        let (zero, nothing) = (s.splat(0.0), s.splat(f32::NEG_INFINITY));
        let [left, right, top, bottom, area] = new;
        // A box without an area, or with NaN, overlaps none.
        if area <= 0.0 || area.is_nan() {
            return false;
        }
        let (left, right, top) = (s.splat(left), s.splat(right), s.splat(top));
        let (bottom, area) = (s.splat(bottom), s.splat(area));
        let [lefts, rights, tops, bottoms, areas] = &self.rows;
        let mut i = 0;
        while i < self.count {
            let width = s.sub(s.min(s.load(&rights[i..]), right), s.max(s.load(&lefts[i..]), left));
            let height =
                s.sub(s.min(s.load(&bottoms[i..]), bottom), s.max(s.load(&tops[i..]), top));
            let common = s.select(s.lt(zero, width), s.mul(width, height), zero);
            let common = s.select(s.lt(zero, height), common, zero);
            if s.any(s.lt(zero, common)) {
                let other = s.load(&areas[i..]);
                let union = s.sub(s.add(area, other), common);
                let ratio = s.select(s.lt(zero, common), s.div(common, union), nothing);
                let ratio = s.select(s.lt(zero, other), ratio, nothing);
                let ratio = s.select(s.lt(zero, union), ratio, nothing);
                if s.any(s.lt(s.splat(most), ratio)) {
                    return true;
                }
            }
            i += S::LANES;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOXES: [f32; 16] =
        [0.0, 0.0, 1.0, 1.0, 0.1, 0.0, 1.1, 1.0, 3.0, 3.0, 4.0, 4.0, 1.0, 1.0, 0.0, 0.0];
    const GEOMETRY: Boxes = Boxes { images: 1, classes: 2, boxes: 4 };

    /// Returns the classes and indices of the selected boxes.
    fn kept(count: i64, overlap: f32, score: Option<f32>) -> ([usize; 1], [i64; 16]) {
        let scores = [0.9, 0.75, 0.6, 0.9, f32::NAN, 0.2, 0.3, 0.1];
        let (mut sizes, mut kept, mut order) = ([9], [9; 24], [0; 4]);
        let score = score.map(|score| [score]);
        select_corners(
            &mut sizes,
            BoxOperands {
                boxes: &BOXES,
                scores: &scores,
                count: Some(&[count]),
                overlap: Some(&[overlap]),
                score: score.as_ref().map(|score| &score[..]),
            },
            &mut kept,
            &mut order,
            GEOMETRY,
        );
        let mut rows = [9; 16];
        for (row, kept) in rows.chunks_exact_mut(2).zip(kept.chunks_exact(3)).take(sizes[0]) {
            row.copy_from_slice(&kept[1..]);
        }
        (sizes, rows)
    }

    #[test]
    fn boxes_that_overlap_a_better_box_are_removed() {
        let (count, rows) = kept(3, 0.5, None);
        assert_eq!((count, &rows[..8]), ([4], &[0, 0, 0, 2, 1, 2, 1, 1][..]));
        let (count, rows) = kept(1, 0.5, None);
        assert_eq!((count, &rows[..4]), ([2], &[0, 0, 1, 2][..]));
        let (count, rows) = kept(9, 0.9, Some(0.25));
        assert_eq!((count, &rows[..8]), ([4], &[0, 0, 0, 1, 0, 2, 1, 2][..]));
        assert_eq!(kept(-1, 0.5, None).0, [0]);
    }

    #[test]
    fn boxes_may_be_centers_and_sizes() {
        let boxes = [0.5, 0.5, 1.0, 1.0, 0.5, 0.6, 1.0, 1.0, 3.0, 3.0, 1.0, 1.0];
        let (mut sizes, mut kept, mut order) = ([9], [9; 9], [0; 3]);
        let geometry = Boxes { images: 1, classes: 1, boxes: 3 };
        let scores = [0.5, 0.6, 0.7];
        select_centers(
            &mut sizes,
            BoxOperands {
                boxes: &boxes,
                scores: &scores,
                count: Some(&[3]),
                overlap: Some(&[0.5]),
                score: None,
            },
            &mut kept,
            &mut order,
            geometry,
        );
        assert_eq!((sizes, &kept[..6]), ([2], &[0, 0, 2, 0, 0, 1][..]));
    }

    /// The intersection over union of two boxes, by its definition.
    fn ratio(a: &[f32], b: &[f32]) -> f32 {
        let side = |i: usize| {
            let [a, b] = [a, b].map(|x| (x[i].min(x[i + 2]), x[i].max(x[i + 2])));
            ((a.1.min(b.1) - a.0.max(b.0)).max(0.0), a.1 - a.0, b.1 - b.0)
        };
        let (y, x) = (side(0), side(1));
        let common = x.0 * y.0;
        if common == 0.0 { 0.0 } else { common / (x.1 * y.1 + x.2 * y.2 - common) }
    }

    #[cfg(feature = "std")]
    #[test]
    fn many_boxes_are_selected_as_one_by_one_at_every_level() {
        const N: usize = 1500;
        let number = |i: usize| ((i * 7919 + i * i * 31) % 1009) as f32 / 10.0;
        let corners = (0..N).flat_map(|i| {
            let [y, x, height, width] = [0, 1, 2, 3].map(|j| number(4 * i + j));
            [y, x, y + height / 8.0, x - width / 8.0]
        });
        let boxes: std::vec::Vec<f32> = corners.collect();
        // Some scores are equal, some negative, some zeros of either sign, one is NaN.
        let score =
            |i: usize| ((i * 37 % 61) as f32 - 20.0) * if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let mut scores: std::vec::Vec<f32> = (0..N).map(score).collect();
        scores[17] = f32::NAN;
        let mut order: std::vec::Vec<usize> = (0..N).collect();
        let key = |i: usize| if scores[i].is_nan() { f32::NEG_INFINITY } else { scores[i] };
        order.sort_by(|&a, &b| key(b).partial_cmp(&key(a)).expect("no key is NaN"));
        let mut expected: std::vec::Vec<usize> = std::vec::Vec::new();
        for &i in &order {
            let of = |i: usize| &boxes[i * 4..][..4];
            if expected.iter().all(|&kept| ratio(of(i), of(kept)) <= 0.3) {
                expected.push(i);
            }
        }
        assert!(expected.len() > 2 * BLOCK && expected.len() < N - BLOCK, "{}", expected.len());
        crate::simd::each_level(|level| {
            let (mut sizes, mut kept, mut order) = ([0], [0; N * 3], [0; N]);
            let operands = BoxOperands {
                boxes: &boxes,
                scores: &scores,
                count: Some(&[N as i64]),
                overlap: Some(&[0.3]),
                score: None,
            };
            let geometry = Boxes { images: 1, classes: 1, boxes: N };
            select_corners(&mut sizes, operands, &mut kept, &mut order, geometry);
            let found = kept.chunks_exact(3).take(sizes[0]).map(|row| row[2] as usize);
            assert!(found.eq(expected.iter().copied()), "{level:?}");
        });
    }
}
