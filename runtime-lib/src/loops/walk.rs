//! Iteration over the axes that several tensors share. It stores no index, whatever the rank: each
//! axis is a level of recursion, and the innermost axes form one row.

/// A stride: unsigned, or signed where an axis may be reversed.
pub(crate) trait Stride: Copy {
    fn signed(self) -> isize;
}

impl Stride for usize {
    #[inline(always)]
    fn signed(self) -> isize {
        self.cast_signed()
    }
}

impl Stride for isize {
    #[inline(always)]
    fn signed(self) -> isize {
        self
    }
}

/// Calls `visit` with each tensor's offset, starting from `at`, for every index over `sizes`, the
/// last axis fastest.
///
/// A visit processes a whole row, so that its indirect call costs little, and the loop is compiled
/// once instead of for every kernel and element type.
pub(crate) fn walk<S: Stride, const N: usize>(
    sizes: &[usize],
    strides: [&[S]; N],
    at: [usize; N],
    visit: &mut dyn FnMut([usize; N]),
) {
    let Some((&size, inner)) = sizes.split_first() else { return visit(at) };
    let (mut at, mut inner_strides) = (at, strides);
    for strides in &mut inner_strides {
        *strides = &strides[1..];
    }
    for _ in 0..size {
        walk(inner, inner_strides, at, visit);
        for (at, strides) in at.iter_mut().zip(strides) {
            *at = at.wrapping_add_signed(strides[0].signed());
        }
    }
}

/// The longest run of last axes that each tensor traverses with one stride.
pub(crate) struct Row<const N: usize> {
    /// The number of axes before the run.
    pub rank: usize,
    /// The number of elements in the run.
    pub len: usize,
    /// The stride of each tensor within the run.
    pub steps: [isize; N],
}

impl<const N: usize> Row<N> {
    pub(crate) fn of<S: Stride>(sizes: &[usize], strides: [&[S]; N]) -> Self {
        let mut row = Row { rank: sizes.len(), len: 1, steps: [1; N] };
        for (axis, &size) in sizes.iter().enumerate().rev() {
            let here = strides.map(|strides| strides[axis].signed());
            if row.len == 1 && size != 1 {
                row.steps = here;
            }
            let continues = row.steps.map(|step| step.wrapping_mul(row.len.cast_signed())) == here;
            if size != 1 && !continues {
                break;
            }
            row.rank = axis;
            row.len *= size;
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_spans_axes_that_all_operands_cross_evenly() {
        let row = Row::of::<usize>(&[2, 3, 4, 1], [&[12, 4, 1, 9], &[0, 4, 1, 0]]);
        assert_eq!((row.rank, row.len, row.steps), (1, 12, [1, 1]));
        let row = Row::of::<usize>(&[2, 3, 4], [&[12, 4, 1], &[0, 0, 0]]);
        assert_eq!((row.rank, row.len, row.steps), (0, 24, [1, 0]));
        let row = Row::of::<usize>(&[2, 3, 4], [&[12, 4, 1], &[4, 0, 1]]);
        assert_eq!((row.rank, row.len, row.steps), (2, 4, [1, 1]));
        let row = Row::of::<isize>(&[3, 4], [&[-4, -1]]);
        assert_eq!((row.rank, row.len, row.steps), (0, 12, [-1]));
        let row = Row::of::<usize>(&[], [&[]]);
        assert_eq!((row.rank, row.len), (0, 1));
    }

    #[test]
    fn an_index_may_run_backward() {
        let mut seen = [0; 6];
        let mut count = 0;
        walk::<isize, 1>(&[2, 3], [&[3, -1]], [2], &mut |[at]| {
            seen[count] = at;
            count += 1;
        });
        assert_eq!(seen, [2, 1, 0, 5, 4, 3]);
    }

    #[test]
    fn an_empty_axis_is_not_visited() {
        walk::<usize, 1>(&[2, 0, 3], [&[0, 3, 1]], [0], &mut |_| panic!("there is no index"));
    }
}
