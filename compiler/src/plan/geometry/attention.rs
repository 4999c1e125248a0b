//! The geometry of attention and related operators.

use super::dense::largest;
use crate::{
    dim::Dim,
    plan::formula::{choices, formulas},
};
use onnxc_runtime::kernels::attention;

formulas! {
    /// The sizes and the mask of an attention.
    "kernels::attention::Attention" Attention: attention::Attention {
        batch: Dim,
        heads: Dim,
        group: Dim,
        queries: Dim,
        keys: Dim,
        depth: Dim,
        width: Dim,
        q: [Dim; 3],
        k: [Dim; 3],
        v: [Dim; 3],
        y: [Dim; 3],
        mask: [Dim; 3],
        mask_len: Dim,
        past: Dim,
        left: Option<usize>,
        right: Option<usize>,
        scale: Option<f32>,
        softcap: f32,
        precision: attention::Precision,
        stage: attention::Stage,
        rows: usize,
    }

    /// Rows that are appended to a cache.
    "kernels::attention::Append" Append: attention::Append {
        batch: Dim,
        heads: Dim,
        past: Dim,
        new: Dim,
        width: Dim,
        x: [Dim; 3],
    }

    /// The sizes of a linear attention.
    "kernels::attention::LinearAttention" LinearAttention: attention::LinearAttention {
        batch: Dim,
        steps: Dim,
        heads: Dim,
        group: Dim,
        depth: Dim,
        width: Dim,
        decays: Dim,
        rates: Dim,
        scale: Option<f32>,
    }

    /// Rows of heads, and the positions of their angles.
    "kernels::attention::Rotary" Rotary: attention::Rotary {
        batch: Dim,
        heads: Dim,
        len: Dim,
        size: Dim,
        pairs: Dim,
        x: [Dim; 3],
        places: [Dim; 2],
        angles: Dim,
    }
}

choices! {
    attention::Precision: "kernels::attention::Precision" as "Precision";
    attention::Stage: "kernels::attention::Stage" as "Stage";
}

impl Attention {
    /// Returns the elements of scratch memory with which the attention is fastest, in the wide
    /// type; `size` is the size of an element in bytes, or 0 where elements are not of the wide
    /// type.
    pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim, size: usize) -> Dim {
        let own = [&self.heads, &self.group, &self.queries, &self.keys, &self.depth, &self.width];
        let [heads, group, queries, keys, depth, width] = own.map(most);
        let bounded = Attention { heads, group, queries, keys, depth, width, ..self.clone() };
        if own.iter().all(|dim| dim.known().is_some()) {
            return largest(&bounded, |g| attention::attention_scratch(&g, size));
        }
        // The formula of `attention_scratch`.
        let rows = Dim::from(self.rows);
        let Attention { keys, depth, width, .. } = self;
        let copied = keys * width;
        let padded = keys + i64::try_from(onnxc_runtime::simd::MAX_LANES).unwrap_or(0);
        let products = largest(&bounded, |g| attention::product_scratch(&g));
        &padded * depth + copied + rows * (depth + &padded + 1 + width) + products
    }
}
