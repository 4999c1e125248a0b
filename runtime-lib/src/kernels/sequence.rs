//! Operators over sequences, and `OptionalGetElement`.

use crate::Elem;
use crate::error::{Error, Result};
use crate::sequence::{OTHER_AXES, Sequence};
use alloc::vec::Vec;

const OTHER_SIZES: Error =
    Error::Value("a tensor of a sequence has other sizes than the model says");
const NOTHING: Error = Error::Value("a sequence without tensors cannot be joined");
const NOT_JOINED: Error = Error::Value("the tensors of a sequence do not fit together");
const PARTS_DIFFER: Error = Error::Value("the parts of SplitToSequence do not add up to the axis");

/// Returns the index of a position among `size` positions; a negative one counts from the end.
///
/// # Errors
///
/// Returns an error for a position out of range.
fn place(position: &[i64], size: usize, len: usize) -> Result<usize> {
    let index = position.first().copied().unwrap_or(0);
    let from_end = i64::try_from(len).unwrap_or(i64::MAX);
    let place = if index < 0 { index.checked_add(from_end) } else { Some(index) };
    let place = place.and_then(|place| usize::try_from(place).ok());
    place.filter(|&place| place < size).ok_or(Error::Index { index, size })
}

/// Copies a sequence.
pub fn identity<T: Elem>(x: &Sequence<T>, y: &mut Sequence<T>) {
    y.clone_from(x);
}

/// `SequenceEmpty`: clears a sequence.
pub fn sequence_empty<T: Elem>(y: &mut Sequence<T>) {
    y.clear();
}

/// `SequenceInsert` at the end; also one tensor of `SequenceConstruct`.
pub fn sequence_push<T: Elem>(y: &mut Sequence<T>, x: &[T], shape: &[usize]) {
    y.data.extend_from_slice(x);
    y.close(shape);
}

/// `SequenceInsert` at a position.
///
/// # Errors
///
/// Returns an error for a position out of range.
pub fn sequence_insert<T: Elem>(
    y: &mut Sequence<T>,
    x: &[T],
    position: &[i64],
    shape: &[usize],
) -> Result {
    let at = place(position, y.len() + 1, y.len())?;
    y.insert(at, shape, x);
    Ok(())
}

/// `SequenceErase`; erases the last tensor if there is no position.
///
/// # Errors
///
/// Returns an error for a position out of range.
pub fn sequence_erase<T: Elem>(y: &mut Sequence<T>, position: Option<&[i64]>) -> Result {
    let at = place(position.unwrap_or(&[-1]), y.len(), y.len())?;
    y.remove(at);
    Ok(())
}

/// `SequenceLength`: writes the number of tensors.
pub fn sequence_length<T: Elem>(x: &Sequence<T>, y: &mut [i64]) {
    y[0] = i64::try_from(x.len()).unwrap_or(i64::MAX);
}

/// `SequenceAt`: copies the tensor at a position.
///
/// # Errors
///
/// Returns an error for a position out of range.
pub fn sequence_at<T: Elem>(x: &Sequence<T>, position: &[i64], y: &mut [T]) -> Result {
    let at = place(position, x.len(), x.len())?;
    let (_, data) = x.get(at).ok_or(OTHER_SIZES)?;
    if data.len() != y.len() {
        return Err(OTHER_SIZES);
    }
    y.clone_from_slice(data);
    Ok(())
}

/// Computes the sizes of the tensor of `SequenceAt` that `shape` does not know.
///
/// # Errors
///
/// Returns an error for a position out of range, or sizes that contradict `shape`.
pub fn sequence_at_sizes<T: Elem>(
    sizes: &mut [usize],
    x: &Sequence<T>,
    position: &[i64],
    shape: &[Option<usize>],
) -> Result {
    let at = place(position, x.len(), x.len())?;
    let (found, _) = x.get(at).ok_or(OTHER_SIZES)?;
    settle(sizes, found, shape)
}

/// Checks the known sizes and returns the others.
fn settle(sizes: &mut [usize], found: &[usize], shape: &[Option<usize>]) -> Result {
    if found.len() != shape.len() {
        return Err(OTHER_AXES);
    }
    let mut open = sizes.iter_mut();
    for (&found, &known) in found.iter().zip(shape) {
        match known {
            Some(known) if known != found => return Err(OTHER_SIZES),
            Some(_) => {}
            None => open.next().into_iter().for_each(|size| *size = found),
        }
    }
    Ok(())
}

/// `ConcatFromSequence` along an existing or a new axis; `outer` is the product of the sizes before
/// it.
///
/// # Errors
///
/// Returns an error if the tensors do not have the elements of the result, or do not divide into
/// `outer` parts.
pub fn concat_from_sequence<T: Elem>(x: &Sequence<T>, y: &mut [T], outer: usize) -> Result {
    if x.data.len() != y.len() || outer == 0 {
        return if x.data.len() == y.len() { Ok(()) } else { Err(OTHER_SIZES) };
    }
    let row = y.len() / outer;
    let mut start = 0;
    for (_, data) in x.iter() {
        let len = data.len() / outer;
        if len * outer != data.len() {
            return Err(NOT_JOINED);
        }
        for (i, part) in data.chunks(len.max(1)).enumerate() {
            y[i * row + start..][..len].clone_from_slice(part);
        }
        start += len;
    }
    Ok(())
}

/// Computes the sizes of the result of `ConcatFromSequence` that `shape` does not know.
///
/// # Errors
///
/// Returns an error for tensors that do not fit together, or that contradict `shape`.
pub fn concat_from_sequence_sizes<T: Elem>(
    sizes: &mut [usize],
    x: &Sequence<T>,
    axis: usize,
    shape: &[Option<usize>],
) -> Result {
    let (first, _) = x.get(0).ok_or(NOTHING)?;
    let mut joined: Vec<usize> = first.to_vec();
    if axis >= joined.len() {
        return Err(OTHER_AXES);
    }
    joined[axis] = 0;
    for (found, _) in x.iter() {
        let others = |sizes: &[usize]| [&sizes[..axis], &sizes[axis + 1..]].concat();
        if found.len() != joined.len() || others(found) != others(&joined) {
            return Err(NOT_JOINED);
        }
        joined[axis] += found[axis];
    }
    settle(sizes, &joined, shape)
}

/// Computes the sizes of the result of `ConcatFromSequence` along a new axis that `shape` does not
/// know.
///
/// # Errors
///
/// Returns an error for tensors that differ in shape, or that contradict `shape`.
pub fn stack_sequence_sizes<T: Elem>(
    sizes: &mut [usize],
    x: &Sequence<T>,
    axis: usize,
    shape: &[Option<usize>],
) -> Result {
    let (first, _) = x.get(0).ok_or(NOTHING)?;
    if axis > first.len() {
        return Err(OTHER_AXES);
    }
    if x.iter().any(|(found, _)| found != first) {
        return Err(NOT_JOINED);
    }
    let stacked = [&first[..axis], &[x.len()], &first[axis..]].concat();
    settle(sizes, &stacked, shape)
}

/// `SplitToSequence` into parts of given sizes.
///
/// # Errors
///
/// Returns an error for sizes that are negative, or whose sum is not that of the axis.
pub fn split_to_sequence<T: Elem>(
    x: &[T],
    parts: &[i64],
    y: &mut Sequence<T>,
    shape: &[usize],
    axis: usize,
) -> Result {
    y.clear();
    let mut start = 0usize;
    for &part in parts {
        let len = usize::try_from(part).map_err(|_| PARTS_DIFFER)?;
        let end = start.checked_add(len).filter(|&end| end <= shape[axis]).ok_or(PARTS_DIFFER)?;
        push_part(x, y, shape, axis, start..end);
        y.close(&[&shape[..axis], &[len], &shape[axis + 1..]].concat());
        start = end;
    }
    if start == shape[axis] { Ok(()) } else { Err(PARTS_DIFFER) }
}

/// `SplitToSequence` into parts of one size; the last may be smaller.
///
/// # Errors
///
/// Returns an error for a size that is not positive.
pub fn split_to_sequence_evenly<T: Elem>(
    x: &[T],
    size: &[i64],
    y: &mut Sequence<T>,
    shape: &[usize],
    axis: usize,
) -> Result {
    y.clear();
    let size = size.first().and_then(|&size| usize::try_from(size).ok()).unwrap_or(0);
    if size == 0 {
        return Err(Error::Value("the size of a part of SplitToSequence must be positive"));
    }
    for start in (0..shape[axis]).step_by(size) {
        let end = shape[axis].min(start.saturating_add(size));
        push_part(x, y, shape, axis, start..end);
        y.close(&[&shape[..axis], &[end - start], &shape[axis + 1..]].concat());
    }
    Ok(())
}

/// `SplitToSequence` into parts of size one, without the axis.
pub fn unstack_to_sequence<T: Elem>(x: &[T], y: &mut Sequence<T>, shape: &[usize], axis: usize) {
    y.clear();
    for at in 0..shape[axis] {
        push_part(x, y, shape, axis, at..at + 1);
        y.close(&[&shape[..axis], &shape[axis + 1..]].concat());
    }
}

/// Appends one part of a tensor.
fn push_part<T: Elem>(
    x: &[T],
    y: &mut Sequence<T>,
    shape: &[usize],
    axis: usize,
    part: core::ops::Range<usize>,
) {
    let inner: usize = shape[axis + 1..].iter().product();
    let row = shape[axis] * inner;
    for outer in 0..shape[..axis].iter().product() {
        let row = &x[outer * row..][..row];
        y.data.extend_from_slice(&row[part.start * inner..part.end * inner]);
    }
}

/// `OptionalGetElement`: checks that an optional has a value.
///
/// # Errors
///
/// Returns an error for an empty optional.
pub fn optional_get_element(given: &[bool]) -> Result {
    if given[0] { Ok(()) } else { Err(Error::Value("an optional value is absent")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    type Tensors = Vec<(Vec<usize>, Vec<u8>)>;

    fn tensors(sequence: &Sequence<u8>) -> Tensors {
        sequence.iter().map(|(shape, data)| (shape.to_vec(), data.to_vec())).collect()
    }

    #[test]
    fn a_sequence_matches_a_list() {
        let item = |i: usize| -> (Vec<usize>, Vec<u8>) {
            let shape = [vec![], vec![i % 4], vec![2, i % 3]][i % 3].clone();
            let len = shape.iter().product();
            (shape, (0..len).map(|at: usize| (i * 7 + at) as u8).collect())
        };
        let (mut sequence, mut list) = (Sequence::new(), Tensors::new());
        for i in 0..300 {
            let (shape, data) = item(i);
            let signed = list.len() as i64;
            let position = (i as i64 * 31) % (2 * signed + 1) - signed;
            let at = if position < 0 { position + signed } else { position } as usize;
            if i % 3 == 2 && at < list.len() {
                assert_eq!(sequence_erase(&mut sequence, Some(&[position])), Ok(()));
                list.remove(at);
            } else {
                assert_eq!(sequence_insert(&mut sequence, &data, &[position], &shape), Ok(()));
                list.insert(at, (shape, data));
            }
            assert_eq!(tensors(&sequence), list);
        }
        for outside in [list.len() as i64 + 1, -(list.len() as i64) - 1, i64::MIN] {
            assert!(sequence_insert(&mut sequence, &[1], &[outside], &[]).is_err());
            assert!(sequence_erase(&mut sequence, Some(&[outside])).is_err());
        }
        assert!(sequence_erase(&mut Sequence::<u8>::new(), None).is_err());
    }

    #[test]
    fn split_parts_concatenate_to_the_original() {
        let x: Vec<u8> = (0..2 * 6 * 3).collect();
        for axis in 0..3 {
            let shape = [2, 6, 3];
            let mut y = Sequence::new();
            let parts: &[i64] = [&[2, 0][..], &[1, 3, 2], &[3]][axis];
            assert_eq!(split_to_sequence(&x, parts, &mut y, &shape, axis), Ok(()));
            assert_eq!(y.len(), parts.len());
            let (mut sizes, mut joined) = ([0; 3], vec![0; x.len()]);
            assert_eq!(concat_from_sequence_sizes(&mut sizes, &y, axis, &[None; 3]), Ok(()));
            assert_eq!(sizes, shape);
            let outer = shape[..axis].iter().product();
            assert_eq!(concat_from_sequence(&y, &mut joined, outer), Ok(()));
            assert_eq!(joined, x);
            unstack_to_sequence(&x, &mut y, &shape, axis);
            assert_eq!(stack_sequence_sizes(&mut sizes, &y, axis, &[None; 3]), Ok(()));
            assert_eq!((sizes, concat_from_sequence(&y, &mut joined, outer)), (shape, Ok(())));
            assert_eq!(joined, x);
            assert_eq!(split_to_sequence_evenly(&x, &[4], &mut y, &shape, axis), Ok(()));
            assert_eq!(
                (y.len(), y.view::<3>(0).map(|view| view.shape()[axis])),
                match axis {
                    1 => (2, Ok(4)),
                    _ => (1, Ok(shape[axis])),
                }
            );
            assert!(split_to_sequence(&x, &[1], &mut y, &shape, axis).is_err());
        }
    }

    #[test]
    fn sizes_are_checked_against_the_model() {
        let mut x = Sequence::new();
        assert_eq!(x.push(&[2, 1], &[1, 2]), Ok(()));
        assert!(x.push(&[2, 2], &[1, 2]).is_err());
        let mut sizes = [0];
        assert_eq!(sequence_at_sizes(&mut sizes, &x, &[-1], &[None, Some(1)]), Ok(()));
        assert_eq!(sizes, [2]);
        assert!(sequence_at_sizes(&mut sizes, &x, &[0], &[None, Some(2)]).is_err());
        assert!(sequence_at_sizes(&mut sizes, &x, &[0], &[None]).is_err());
        assert!(sequence_at_sizes(&mut sizes, &x, &[1], &[None, None]).is_err());
        assert_eq!(x.push(&[1], &[1]), Ok(()));
        assert!(concat_from_sequence_sizes(&mut sizes, &x, 0, &[None, None]).is_err());
        assert!(stack_sequence_sizes(&mut sizes, &x, 0, &[None, None]).is_err());
    }
}
