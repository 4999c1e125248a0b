//! Packs block-quantized weights into the order in which the kernels read them.

use super::{
    super::pack::PIECE,
    blocks::{Blocks, Codes},
};
use crate::{dtype::DType, plan::Order, tensor::Tensor};
use onnxc_runtime::kernels::blockwise;

/// The columns of a panel.
const COLS: usize = blockwise::packed_codes_len(1, 1, 32);

impl Blocks {
    /// Returns the number of columns of piece `i` and before it, if a column has `len` elements.
    fn columns_of_piece(&self, i: usize, len: usize) -> std::ops::Range<usize> {
        let most = (PIECE / len.max(1)).next_multiple_of(COLS).max(COLS);
        (i * most).min(self.n)..((i + 1) * most).min(self.n)
    }

    /// Returns the number of pieces, if a column has `len` elements.
    fn pieces(&self, len: usize) -> usize {
        self.n.div_ceil(self.columns_of_piece(0, len).len().max(1))
    }

    /// Returns the number of bytes of the codes of a column.
    fn column_bytes(&self) -> usize {
        self.bytes() / self.n
    }
}

/// The packed order of codes.
pub(super) struct PackedCodes(pub Blocks);

impl PackedCodes {
    /// Returns the number of words that hold the codes of `n` columns.
    fn words(&self, n: usize) -> usize {
        blockwise::packed_codes_len(n, self.0.k, self.0.codes.bits())
    }
}

impl Order for PackedCodes {
    fn elements(&self) -> usize {
        self.words(self.0.n)
    }

    fn dtype(&self, _: DType) -> DType {
        DType::U32
    }

    fn pieces(&self) -> usize {
        self.0.pieces(self.0.column_bytes())
    }

    fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
        let column = self.0.column_bytes();
        let columns = self.0.columns_of_piece(i, column);
        let bytes = &constant.bytes()[columns.start * column..columns.end * column];
        let mut words = vec![0; self.words(columns.len())];
        let rows = words.len() / columns.len().next_multiple_of(COLS);
        match self.0.codes {
            Codes::Integers(_) => blockwise::pack_codes(bytes, &mut words, column, rows),
            // The first code is in the upper bits of a byte.
            Codes::Fp4 | Codes::Nf4 => {
                let swapped: Vec<u8> = bytes.iter().map(|byte| byte.rotate_left(4)).collect();
                blockwise::pack_codes(&swapped, &mut words, column, rows);
            }
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Tensor::from_raw(DType::U32, vec![words.len()], bytes.into())
    }
}

/// The packed order of scales and zero points, which have this type.
pub(super) struct PerBlock(pub Blocks, pub DType);

impl Order for PerBlock {
    fn elements(&self) -> usize {
        self.0.n.next_multiple_of(COLS) * self.0.per_column()
    }

    fn pieces(&self) -> usize {
        self.0.pieces(self.0.per_column())
    }

    fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
        let blocks = self.0.per_column();
        let columns = self.0.columns_of_piece(i, blocks);
        let len = columns.len().next_multiple_of(COLS) * blocks;
        let elements = columns.start * blocks..columns.end * blocks;
        let bytes = if self.1 == DType::U8 {
            let mut packed = vec![0; len];
            blockwise::pack_per_block(&constant.bytes()[elements], &mut packed, blocks);
            packed
        } else {
            let numbers = &constant.bytes().as_chunks::<4>().0[elements];
            let mut packed = vec![[0; 4]; len];
            blockwise::pack_per_block(numbers, &mut packed, blocks);
            packed.as_flattened().to_vec()
        };
        Tensor::from_raw(self.1, vec![len], bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::blocks::Arithmetic, *};
    use crate::plan::Weight;
    use std::rc::Rc;

    #[test]
    fn pieces_concatenate_to_the_packed_weights() {
        // A column has a third of a piece, so a piece has 16 columns.
        let (codes, arithmetic) = (Codes::Integers(8), Arithmetic::Float);
        let blocks = Blocks { codes, n: 35, k: PIECE / 3 + 5, block: 1 << 20, arithmetic };
        let column = blocks.column_bytes();
        let bytes: Vec<u8> = (0..blocks.bytes()).map(|i| (i / column + i % 7) as u8).collect();
        let mut whole = vec![0; blockwise::packed_codes_len(blocks.n, blocks.k, 8)];
        let rows = whole.len() / 48;
        blockwise::pack_codes(&bytes, &mut whole, column, rows);
        let constant = Tensor::from_raw(DType::U8, vec![bytes.len()], bytes.into());
        let weight = Weight::ordered(constant, Rc::new(PackedCodes(blocks)));
        assert_eq!(PackedCodes(blocks).pieces(), 3);
        let expected: Vec<u8> = whole.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(weight.tensor().bytes() == expected);
    }
}
