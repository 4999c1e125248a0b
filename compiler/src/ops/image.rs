//! `ImageDecoder`.

use super::{Entry, entry};

#[cfg(feature = "image")]
pub const OPS: &[Entry] = &[entry("ImageDecoder", 20, decoder::read)];

#[cfg(not(feature = "image"))]
pub const OPS: &[Entry] = &[entry("ImageDecoder", 20, |_| {
    use crate::diag::{Code, Diagnostic};
    let message = "`ImageDecoder` needs onnxc built with its feature `image`";
    Err(Diagnostic::new(Code::Unsupported, message))
})];

#[cfg(feature = "image")]
mod decoder {
    use crate::{
        diag::Result,
        dtype::DType,
        ir::{Attributes, Infer, Inferred, Lower, Op, Reader},
        plan::{Kernel, NoParams, kernel},
        ty::Type,
    };
    use std::rc::Rc;

    /// Decodes an image file to pixels `[height, width, channels]`. A generated module that
    /// contains it needs the runtime library with its feature `image`.
    struct ImageDecoder {
        format: &'static Format,
    }

    /// A pixel format.
    struct Format {
        name: &'static str,
        channels: i64,
        kernel: Kernel,
    }

    macro_rules! format {
        ($name:literal $channels:literal $kernel:ident) => {
            Format {
                name: $name,
                channels: $channels,
                kernel: kernel!(INT8S T, image::$kernel, |f, a, _p| f(a.input(0), a.output(0))),
            }
        };
    }

    static RGB: Format = format!("RGB" 3 decode_rgb);
    static BGR: Format = format!("BGR" 3 decode_bgr);
    static GRAYSCALE: Format = format!("Grayscale" 1 decode_grayscale);
    static SIZES: Kernel =
        kernel!(INT8S T, image::decode_sizes, |f, a, _p| f(a.sizes(), a.input(0)));

    pub fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
        let formats = [&RGB, &BGR, &GRAYSCALE].map(|format| (format.name, format));
        Ok(Rc::new(ImageDecoder { format: node.choice("pixel_format", &formats)? }))
    }

    impl Op for ImageDecoder {
        fn name(&self) -> &'static str {
            "ImageDecoder"
        }

        fn attributes(&self, a: &mut Attributes) {
            a.string("pixel_format", self.format.name);
        }

        fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
            cx.of(0, &[DType::U8])?;
            cx.ranked(0, 1)?;
            let mut sizes = cx.fresh_sizes([None, None]);
            sizes.push(self.format.channels.into());
            Ok(vec![Type::tensor(DType::U8, sizes)])
        }

        fn lower(&self, cx: &mut Lower<'_>) -> Result {
            let file = vec![cx.input(0)?.into()];
            cx.bind(&SIZES, DType::U8, file, NoParams)?;
            cx.call(&self.format.kernel, NoParams)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::ops::testing::{check, tensor};

        #[test]
        fn the_sizes_of_an_image_are_data_dependent() {
            for (format, expected) in
                [(&BGR, "uint8[y0_0, y0_1, 3]"), (&GRAYSCALE, "uint8[y0_0, y0_1, 1]")]
            {
                check(ImageDecoder { format }, &[tensor(DType::U8, [100])], 1, expected);
            }
        }
    }
}
