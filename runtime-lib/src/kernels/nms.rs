//! `NonMaxSuppression`: keeps the box with the highest score among boxes that overlap.

use core::cmp::Ordering;

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
        let order = ordered(scores, first(score), order);
        let start = found;
        for &mut at in order {
            if found - start >= most {
                break;
            }
            let of = |at: i64| sides(&boxes[usize::try_from(at).unwrap_or(0) * 4..][..4]);
            let new = of(at);
            let mut before = kept[start * 3..found * 3].chunks_exact(3);
            if before.all(|kept| !overlaps(new, of(kept[2]), overlap)) {
                let row =
                    [crate::loops::index::signed(image), crate::loops::index::signed(class), at];
                kept[found * 3..][..3].copy_from_slice(&row);
                found += 1;
            }
        }
    }
    found
}

fn first<T: Copy>(tensor: Option<&[T]>) -> Option<T> {
    tensor?.first().copied()
}

/// Returns the boxes that exceed the score, in descending order; equal scores keep their order.
fn ordered<'a>(scores: &[f32], least: Option<f32>, order: &'a mut [i64]) -> &'a mut [i64] {
    let mut count = 0;
    for (i, &score) in scores.iter().enumerate() {
        if least.is_none_or(|least| score > least) {
            order[count] = crate::loops::index::signed(i);
            count += 1;
        }
    }
    let order = &mut order[..count];
    let score = |&at: &i64| scores[usize::try_from(at).unwrap_or(0)];
    order.sort_unstable_by(|a, b| by_score(score(b), score(a)).then(a.cmp(b)));
    order
}

/// Orders NaN below all numbers.
fn by_score(a: f32, b: f32) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Returns whether the intersection over union of two boxes exceeds `most`.
fn overlaps(a: Sides, b: Sides, most: f32) -> bool {
    let (mut common, mut area_a, mut area_b) = (1.0, 1.0, 1.0);
    for ([a_start, a_end], [b_start, b_end]) in a.into_iter().zip(b) {
        let len = a_end.min(b_end) - a_start.max(b_start);
        if len <= 0.0 || len.is_nan() {
            return false;
        }
        common *= len;
        area_a *= a_end - a_start;
        area_b *= b_end - b_start;
    }
    let both = area_a + area_b - common;
    common > 0.0 && area_a > 0.0 && area_b > 0.0 && both > 0.0 && common / both > most
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
}
