//! `MurmurHash3` of ONNX Runtime.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::{DType, HASHED},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, microsoft},
    plan::{Kernel, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[microsoft("MurmurHash3", read)];

/// The 32-bit hash of each element.
struct MurmurHash3 {
    seed: u32,
    /// Whether the results are signed.
    signed: bool,
}

static HASH: Kernel<(u32,)> =
    kernel!(HASHED T, text::murmur_hash_3::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));
static SIGNED: Kernel<(u32,)> =
    kernel!(HASHED T, text::murmur_hash_3_signed::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));

fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let seed = node.int("seed", 0)?;
    let bits = u32::try_from(seed).or_else(|_| i32::try_from(seed).map(i32::cast_unsigned));
    let Ok(seed) = bits else {
        let message = format!("`seed` is {seed}, which does not fit in 32 bits");
        return Err(Diagnostic::new(Code::BadAttribute, message));
    };
    Ok(Rc::new(MurmurHash3 { seed, signed: !node.flag("positive", true)? }))
}

impl Op for MurmurHash3 {
    fn name(&self) -> &'static str {
        "MurmurHash3"
    }

    fn domain(&self) -> Domain {
        Domain::Microsoft
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("seed", i64::from(self.seed));
        a.flag("positive", !self.signed);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = if self.signed { DType::I32 } else { DType::U32 };
        Ok(vec![Type::tensor(dtype, &cx.of(0, HASHED)?.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call_for_input(if self.signed { &SIGNED } else { &HASH }, (self.seed,))
    }
}
