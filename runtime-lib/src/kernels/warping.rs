//! `DynamicTimeWarping`: the cheapest path through a matrix of costs.

/// The moves by which a path arrives: diagonally, from the row above, or from the column before.
const MOVES: [[usize; 2]; 3] = [[1, 1], [1, 0], [0, 1]];
const DIAGONAL: u8 = 0;
const ABOVE: u8 = 1;
const BEFORE: u8 = 2;

/// Writes the path from the first to the last element of a matrix of `rows` × `columns` costs whose
/// sum is least: the row of each element, then the columns. The length of the path goes into
/// `sizes`. `path` has `2 · (rows + columns)` elements, `moves` one for each cost, and `sums`
/// `columns + 1`.
///
/// Among paths of equal costs, the one that goes along a row is preferred to the one along a
/// column, and both to the diagonal, unless that is cheaper than each.
pub fn dynamic_time_warping(
    sizes: &mut [usize],
    costs: &[f32],
    path: &mut [i32],
    moves: &mut [u8],
    sums: &mut [f32],
    columns: usize,
) {
    sums.fill(f32::INFINITY);
    let mut corner = 0.0;
    let rows = costs.chunks_exact(columns.max(1)).zip(moves.chunks_exact_mut(columns.max(1)));
    for (costs, moves) in rows {
        sums[0] = f32::INFINITY;
        for (at, (&cost, to)) in costs.iter().zip(moves).enumerate() {
            let candidates = [corner, sums[at + 1], sums[at]];
            let [diagonal, above, before] = candidates;
            let by = match () {
                () if diagonal < above && diagonal < before => DIAGONAL,
                () if above < diagonal && above < before => ABOVE,
                () => BEFORE,
            };
            corner = above;
            sums[at + 1] = cost + candidates[usize::from(by)];
            *to = by;
        }
        corner = f32::INFINITY;
    }
    let length = follow(moves, columns, &mut |_, _| {});
    let (of_rows, of_columns) = path.split_at_mut(length);
    let mut left = length;
    follow(moves, columns, &mut |row, column| {
        left -= 1;
        (of_rows[left], of_columns[left]) = (index(row), index(column));
    });
    sizes.fill(length);
}

fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

/// Calls `see` with the row and the column of each element of the path, from the last one to the
/// first one, and returns their number.
fn follow(moves: &[u8], columns: usize, see: &mut dyn FnMut(usize, usize)) -> usize {
    if moves.is_empty() {
        return 0;
    }
    let (mut row, mut column) = (moves.len() / columns, columns);
    let mut length = 0;
    while row > 0 && column > 0 {
        see(row - 1, column - 1);
        length += 1;
        let by = match (row, column) {
            (1, 1) => return length,
            (1, _) => BEFORE,
            (_, 1) => ABOVE,
            _ => moves[(row - 1) * columns + column - 1],
        };
        let [up, left] = MOVES[usize::from(by)];
        (row, column) = (row - up, column - left);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(costs: &[f32], columns: usize, expected: [&[i32]; 2]) {
        let (mut sizes, mut path, mut moves) = ([9], [9; 16], [9; N]);
        let mut sums = [9.0; 8];
        let sums = &mut sums[..=columns];
        dynamic_time_warping(&mut sizes, costs, &mut path, &mut moves, sums, columns);
        let length = sizes[0];
        assert_eq!([&path[..length], &path[length..2 * length]], expected);
    }

    #[test]
    fn the_path_has_the_least_sum() {
        let costs = [3.0, 2.0, 5.0, 1.0, 4.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 9.0];
        check::<12>(&costs, 4, [&[0, 1, 2, 2], &[0, 1, 2, 3]]);
        check::<4>(&[1.0, 1.0, 0.0, 9.0], 1, [&[0, 1, 2, 3], &[0, 0, 0, 0]]);
        check::<0>(&[], 0, [&[], &[]]);
    }

    #[test]
    fn a_path_of_equal_costs_goes_along_rows_first() {
        check::<6>(&[1.0; 6], 3, [&[0, 1, 1], &[0, 1, 2]]);
    }
}
