//! Nearest-neighbor resizing.

use crate::Elem;

/// The geometry of adjacent axes that are resized with tables of indices.
#[derive(Clone, Copy, Debug)]
pub struct Picked<'a> {
    /// The product of the sizes before the axes.
    pub planes: usize,
    /// The sizes of the axes.
    pub from: &'a [usize],
    /// The sizes of the axes in the result.
    pub to: &'a [usize],
    /// The product of the sizes after the axes.
    pub inner: usize,
}

/// Copies, for each output, the element that the tables of the axes select; `value` where a table
/// has none.
pub fn nearest<T: Elem>(
    x: &[T],
    tables: &[i64],
    value: Option<&[T]>,
    y: &mut [T],
    geometry: Picked<'_>,
) {
    let Picked { planes, from, to, inner } = geometry;
    let value = value.map_or_else(T::default, |value| value[0].clone());
    if y.is_empty() {
        return;
    }
    let from_len = from.iter().product::<usize>() * inner;
    for (i, y) in y.chunks_exact_mut(y.len() / planes).enumerate() {
        pick(&x[i * from_len..][..from_len], tables, &value, y, from, to);
    }
}

/// Resizes one plane.
fn pick<T: Elem>(x: &[T], tables: &[i64], value: &T, y: &mut [T], from: &[usize], to: &[usize]) {
    let ([from, inner_from @ ..], [to, inner_to @ ..]) = (from, to) else {
        return y.clone_from_slice(x);
    };
    let (table, tables) = tables.split_at(*to);
    let (block, y_block) = (x.len().checked_div(*from).unwrap_or(0), y.len() / to);
    let place = |j: usize| usize::try_from(table[j]).ok();
    if y_block == 1 && inner_to.is_empty() {
        for (j, y) in y.iter_mut().enumerate() {
            y.clone_from(place(j).map_or(value, |place| &x[place]));
        }
        return;
    }
    for j in 0..*to {
        let (done, rest) = y.split_at_mut(j * y_block);
        let y = &mut rest[..y_block];
        match place(j) {
            None => y.fill(value.clone()),
            Some(_) if j > 0 && table[j] == table[j - 1] => {
                y.clone_from_slice(&done[(j - 1) * y_block..]);
            }
            Some(place) => {
                pick(&x[place * block..][..block], tables, value, y, inner_from, inner_to);
            }
        }
    }
}

/// Repeats every element along each axis by the axis's factor.
pub fn repeat<T: Elem>(x: &[T], y: &mut [T], sizes: &[usize], factors: &[usize]) {
    let ([size, inner_sizes @ ..], [factor, inner_factors @ ..]) = (sizes, factors) else {
        return y.clone_from_slice(x);
    };
    if y.is_empty() {
        return;
    }
    if inner_sizes.is_empty() {
        return repeat_each(x, y, *factor);
    }
    let (block, y_block) = (x.len() / size, y.len() / (size * factor));
    for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(y_block * factor)) {
        let (first, others) = y.split_at_mut(y_block);
        repeat(x, first, inner_sizes, inner_factors);
        for other in others.chunks_exact_mut(y_block) {
            other.clone_from_slice(first);
        }
    }
}

fn repeat_each<T: Elem>(x: &[T], y: &mut [T], factor: usize) {
    match factor {
        1 => y.clone_from_slice(x),
        // By far the most common factor; the compiler vectorizes this loop.
        2 => {
            for ([a, b], x) in y.as_chunks_mut().0.iter_mut().zip(x) {
                (*a, *b) = (x.clone(), x.clone());
            }
        }
        _ => {
            for (y, x) in y.chunks_exact_mut(factor).zip(x) {
                y.fill(x.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_picked_along_every_axis() {
        let x = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let geometry = Picked { planes: 2, from: &[2, 3], to: &[3, 2], inner: 1 };
        let mut y = [0; 12];
        nearest(&x, &[1, 1, 0, 2, -1], Some(&[99]), &mut y, geometry);
        assert_eq!(y, [6, 99, 6, 99, 3, 99, 12, 99, 12, 99, 9, 99]);
        let geometry = Picked { planes: 1, from: &[2], to: &[3], inner: 3 };
        let mut y = [7; 9];
        nearest(&x[..6], &[1, -1, 0], None, &mut y, geometry);
        assert_eq!(y, [4, 5, 6, 0, 0, 0, 1, 2, 3]);
        let mut y = [7; 2];
        nearest(&[], &[-1, -1], None, &mut y, Picked { planes: 1, from: &[0], to: &[2], inner: 1 });
        assert_eq!(y, [0, 0]);
    }

    #[test]
    fn elements_are_repeated_along_every_axis() {
        let mut y = [0; 16];
        repeat(&[1, 2, 3, 4], &mut y, &[1, 2, 2], &[1, 2, 2]);
        assert_eq!(y, [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]);
        let mut y = [0; 12];
        repeat(&[1, 2], &mut y, &[2, 1], &[2, 3]);
        assert_eq!(y, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
        repeat::<i32>(&[], &mut [], &[2, 0], &[2, 3]);
    }
}
